"""How far a judge can be trusted: probes, and scores calibrated with labels of some videos."""
