"""Human raters: rating sheets, merging, human scores and inter-rater agreement."""
