"""Tables and reports: the only room that formats numbers for people."""
