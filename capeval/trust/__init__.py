"""How far a judge can be trusted: probes, bridges, calibrated scores."""
