"""How far a judge can be trusted: probes with certain verdicts, and the cards made of them."""
