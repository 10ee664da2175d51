"""The options of AutoDQ."""

from dataclasses import KW_ONLY

from capeval.options import JUDGE, declares, option


@declares
class AutodqOptions:
    """The options of AutoDQ: see `help(capeval.measure)`.

    Parameters
    ----------
    upstream_empties : AutoDQ: where a caption or a reference has no events, count 1.0 as the
        authors' code does, and do not leave the value undefined.
    """

    _: KW_ONLY
    upstream_empties: bool = option(False, panel=JUDGE)
