"""The data model of capeval, as frozen pydantic models."""

from capeval.schema.annotation import (
    CHARACTERISTICS,
    ELEMENT_TYPES,
    Annotation,
    Characteristic,
    ElementType,
    Event,
    VisualElement,
    element_ids,
)
from capeval.schema.caption import Caption
from capeval.schema.judgment import (
    JUDGMENT,
    RELATIONS,
    Inputs,
    Judgment,
    Provenance,
    Relation,
    Scored,
    Unscored,
    Verdict,
    endpoint_name,
    flaw_of,
    lacking,
)
from capeval.schema.rating import (
    COVERAGES,
    Coverage,
    HumanLabel,
    HumanRating,
    LabelScale,
    RaterMode,
)
from capeval.schema.usage import Usage

__all__ = [
    "CHARACTERISTICS",
    "COVERAGES",
    "ELEMENT_TYPES",
    "JUDGMENT",
    "RELATIONS",
    "Annotation",
    "Caption",
    "Characteristic",
    "Coverage",
    "ElementType",
    "Event",
    "HumanLabel",
    "HumanRating",
    "Inputs",
    "Judgment",
    "LabelScale",
    "Provenance",
    "RaterMode",
    "Relation",
    "Scored",
    "Unscored",
    "Usage",
    "Verdict",
    "VisualElement",
    "element_ids",
    "endpoint_name",
    "flaw_of",
    "lacking",
]
