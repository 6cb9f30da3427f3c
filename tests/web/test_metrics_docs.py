"""docs/metrics.md lists exactly the metrics that there are."""

import re
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric

from dtq_engine.metrics import BOUNDS, FleetCollector
from dtq_engine.model import FINAL
from dtq_engine.store import Store
from tests.store.hand import Hand, info
from tests.web.test_metrics import live

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
ROW = re.compile(r"\| `(dtq_\w+)` \|([^|]*)\| (.*) \|")


@pytest.fixture
def families(store: Store) -> list[Metric]:
    """All metrics of a deployment in which there is something of everything."""
    live(Hand(store, types=("mail", "other")))
    store.workers.beat(info("w1"), 60)
    store.rejections.count("queue_full")
    return list(FleetCollector(store).collect())


def sections() -> dict[str, list[tuple[str, set[str], str]]]:
    parts = re.split(r"(?m)^## ", PAGE)
    return {
        part.split("\n")[0]: [
            (name, set(re.findall(r"`(\w+)`", labels)), text) for name, labels, text in ROW.findall(part)
        ]
        for part in parts
    }


@pytest.mark.parametrize(
    ("section", "kind"), [("Counters", "counter"), ("Gauges", "gauge"), ("Histograms", "histogram")]
)
def test_each_metric_is_listed_with_its_labels_and_meaning_and_no_other(
    families: list[Metric], section: str, kind: str
) -> None:
    there = {
        (f"{family.name}_total" if kind == "counter" else family.name): (
            {label for sample in family.samples for label in sample.labels} - {"le"},
            family.documentation,
        )
        for family in families
        if family.type == kind
    }
    listed = {name: (labels, text) for name, labels, text in sections()[section]}
    assert listed == there


def test_no_metric_has_ids_or_texts_for_labels(families: list[Metric]) -> None:
    labels = {label for family in families for sample in family.samples for label in sample.labels}
    assert labels == {"queue", "task_type", "status", "result", "reason", "worker_id", "le"}


def test_alerts_and_expressions_use_metrics_that_exist(families: list[Metric]) -> None:
    there = {sample.name for family in families for sample in family.samples}
    used = {
        name
        for block in re.findall(r"(?s)```(?:yaml|promql)\n(.*?)```", PAGE)
        for name in re.findall(r"\bdtq_\w+", block)
    }
    assert used
    assert used <= there


def test_the_values_that_are_named_are_those_of_the_code(families: list[Metric]) -> None:
    for status in FINAL:
        assert f"`{status}`" in PAGE
    assert f"from {BOUNDS[0]} s to {BOUNDS[-1]} s" in PAGE
