"""Puts the rooms together: captions in, judged, scored and stored as a run.

Each part may import those above it that are named behind it, so that all imports run one way:

=============== ================================================== ===========================
`config`        where a user's own prices and models stand
`sources`       captions and annotations: a file, a run, the sample
`scores`        scores of stored verdicts: made, read, checked
`generating`    captioning videos as a run                         `config`, `sources`
`judging`       judging captions as a run                          `config`, `scores`
`correlating`   metrics of all kinds, held against people          `sources`, `scores`
`judged`        a judged run as a whole, and one video of it       `sources`, `scores`
`comparing`     judged runs against one another, and gates         `judged`
`leaderboard`   stored scores of all runs, and the paper's tables  `config`, `sources`, `scores`
=============== ================================================== ===========================
"""
