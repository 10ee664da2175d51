from __future__ import annotations

import pytest
from scipy import stats

from capeval.stats.student_t import t_quantile


@pytest.mark.parametrize("probability", [0.6, 0.9, 0.975, 0.9995])
def test_quantiles_are_those_of_scipy(probability: float) -> None:
    for freedom in (*range(2, 230), 999, 100_000):
        found = t_quantile(probability, freedom)
        assert found == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-9)
