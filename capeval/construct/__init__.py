"""Making benchmarks: annotations of videos, and multiple-choice questions about them.

In the order of the work:

- annotations: `video_measures` and `video_filter`, `annotation_drafting`, `review`, `alignment` and
  `annotation_agreement`, `annotation_merging`; all but the first two work on `drafts`
- questions: `question_drafting`, `question_checks`, `question_filter`, `review`
"""
