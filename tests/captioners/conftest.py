import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from capeval.captioners.generate import Wanted, load_caption_prompts
from capeval.captioners.protocol import LoadedModel
from capeval.captioners.transformers_backend import TransformersCaptioner
from capeval.files.annotations import VideoFolder, load_annotations
from tests.cli.conftest import _none_is_left_running  # noqa: F401 - around every test
from tests.files.making import record

Checkpoint = Callable[[str], Path]
Load = Callable[..., LoadedModel]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    from tests.captioners import tiny

    folder = tmp_path_factory.mktemp("checkpoints")
    made: dict[str, Path] = {}

    def get(family: str) -> Path:
        if family not in made:
            made[family] = tiny.make(family, folder)
        return made[family]

    return get


@pytest.fixture(scope="session")
def load(checkpoint: Checkpoint) -> Load:
    """Load a tiny model by the real path, once a session for each way to load it."""
    from tests.captioners import tiny

    loaded: dict[Any, LoadedModel] = {}

    def get(family: str, **options: Any) -> LoadedModel:
        key = (family, *sorted(options.items()))
        if key not in loaded:
            options = {"max_new_tokens": 10, **options}
            loaded[key] = tiny.load(checkpoint(family), family, **options)
        return loaded[key]

    return get


@pytest.fixture
def captioner(load: Load) -> Callable[..., TransformersCaptioner]:
    def get(family: str, batch_size: Any = 1, **options: Any) -> TransformersCaptioner:
        return TransformersCaptioner(load(family, **options), name=family, batch_size=batch_size)

    return get


@pytest.fixture
def wanted_of(tmp_path: Path) -> Callable[..., Wanted]:
    def make(
        indexes: Sequence[str | dict[str, Any]], *, files: Sequence[str] | None = None, **more: Any
    ) -> Wanted:
        rows = [i if isinstance(i, dict) else record(i, video=i) for i in indexes]
        path = tmp_path / "annotations.json"
        path.write_text(json.dumps(rows), encoding="utf-8")
        folder = tmp_path / "videos"
        folder.mkdir(exist_ok=True)
        for row in rows if files is None else ():
            (folder / f"{row['index']}.mp4").touch()
        for file in files or ():
            (folder / file).touch()
        annotations = load_annotations(path)
        settings: dict[str, Any] = {
            "annotations": annotations,
            "chosen": annotations,
            "annotations_path": str(path),
            "videos": VideoFolder(folder),
            "prompts": load_caption_prompts(None),
        }
        return Wanted(**(settings | more))

    return make
