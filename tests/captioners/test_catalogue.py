"""The catalogue of models, and the user's own entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from capeval.captioners.catalogue import ModelEntry, find_model, read_catalogue
from capeval.captioners.options import GenerateOptions
from capeval.captioners.prompting import load_caption_prompts
from capeval.captioners.selection import choose_model
from capeval.errors import CapevalError, InputError, UsageError
from capeval.video import open_reader

CATALOGUE = read_catalogue()

# Table 7 of the paper, in its order.
PAPER = {
    "qwen2-vl-72b": "2fps",
    "qwen2-vl-7b": "2fps",
    "llava-video-72b": "32",
    "llava-video-7b": "32",
    "llava-onevision-72b": "32",
    "llava-onevision-7b": "32",
    "internvl2-76b": "32",
    "internvl2-40b": "32",
    "internvl2-26b": "32",
    "internvl2-8b": "32",
    "tarsier-34b": "32",
    "tarsier-7b": "32",
    "pllava-34b": "16",
    "pllava-13b": "16",
    "pllava-7b": "16",
    "minicpm-v-2.6": "32",
    "kangaroo": "32",
    "longva-7b": "32",
    "gpt-4o-2024-08-06": "auto",
    "gemini-1.5-pro-002": "auto",
    "gemini-1.5-flash-002": "auto",
}


def test_the_papers_models_have_the_frames_of_its_table_7() -> None:
    assert {e.name: e.frames for e in CATALOGUE.values() if e.paper} == PAPER


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda e: e.name)
def test_every_entry_can_be_used_or_says_why_not(entry: ModelEntry) -> None:
    open_reader(entry.frames)
    load_caption_prompts(None, entry.prompt)
    assert entry.revision is None
    if entry.reached == "nowhere":
        assert entry.note
    elif entry.reached == "server":
        assert entry.serve
        assert entry.hub
        assert entry.hub in entry.serve
    elif entry.reached == "transformers":
        assert entry.hub
        assert entry.memory


def test_memory_grows_with_the_parameters() -> None:
    # 8.3 billion weights in bf16 are 15.5 GiB.
    assert CATALOGUE["qwen2-vl-7b"].memory == 21
    assert CATALOGUE["gpt-4o-2024-08-06"].memory is None


def test_a_hub_id_needs_no_entry() -> None:
    entry = find_model("hf:some/Model-1B", CATALOGUE)
    assert (entry.name, entry.hub) == ("some/Model-1B", "some/Model-1B")
    assert (entry.reached, entry.frames) == ("transformers", "32")
    # One that is known keeps what is known of it.
    assert find_model("hf:Qwen/Qwen2-VL-7B-Instruct", CATALOGUE).frames == "2fps"
    assert find_model("Qwen/Qwen2-VL-7B-Instruct", CATALOGUE).name == "qwen2-vl-7b"


def test_a_folder_needs_no_entry(tmp_path: Path) -> None:
    assert find_model(f"hf:{tmp_path}", CATALOGUE).hub == str(tmp_path)


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "capeval.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_own_entries_add_and_change(tmp_path: Path) -> None:
    catalogue = read_catalogue(
        own(
            tmp_path,
            """
            [prices."x"]
            input = 1
            output = 1
            [models."llava-video-7b"]
            frames = "64"
            [models."mine"]
            base_url = "http://gpu:8000/v1"
            system = "You are careful."
            """,
        )
    )
    changed, mine = catalogue["llava-video-7b"], catalogue["mine"]
    assert (changed.frames, changed.hub) == ("64", "lmms-lab/LLaVA-Video-7B-Qwen2")
    assert (mine.reached, mine.base_url, mine.frames) == ("endpoint", "http://gpu:8000/v1", "32")


def test_without_a_file_there_is_the_packaged_table(tmp_path: Path) -> None:
    assert read_catalogue(tmp_path / "capeval.toml") == CATALOGUE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[models.m", "not valid TOML"),
        ("models = 3", "models: must be a table, not 3"),
        ('[models]\nm = "x"', 'models."m": must be a table, not "x"'),
        ('[models.m]\nhub = "a/b"\nframe = "32"', 'models."m".frame: is unknown; one of reached'),
        ('[models.m]\nhub = "a/b"\nframe = "32"', 'did you mean "frames"?'),
        ('[models."llava-vido-7b"]\nframes = "8"', 'did you mean "llava-video-7b"?'),
        ('[models.m]\nhub = "a/b"\nreached = "transformer"', 'did you mean "transformers"?'),
        ('[models.m]\nhub = "a/b"\nmax_new_tokens = 0', "max_new_tokens: "),
        ('[models.m]\nhub = "a/b"\nmax_new_tokens = "many"', 'not "many"'),
        ('[models.m]\nreached = "server"\nhub = "a/b"', "needs 'serve'"),
        ('[models.m]\nhub = "a/b"\nimages = "webp"', '"webp" is unknown'),
        ('[models.m]\nhub = "a/b"\nparameters = nan', "parameters"),
    ],
)
def test_a_malformed_entry_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_catalogue(own(tmp_path, text))
    line = str(caught.value)
    assert line.startswith(f"{tmp_path / 'capeval.toml'}: ")
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (GenerateOptions(), "name a model with --model"),
        (GenerateOptions("llava-vido-7b"), 'did you mean "llava-video-7b"?'),
        (GenerateOptions("hf:nothing"), "must be hf:ORG/NAME"),
        (GenerateOptions("kangaroo"), "cannot be run from here"),
        (GenerateOptions("gemini-1.5-pro-002"), "retired"),
        (GenerateOptions("minicpm-v-2.6"), "vllm serve openbmb/MiniCPM-V-2_6"),
    ],
)
def test_a_model_that_cannot_be_run_says_what_to_do(
    choice: GenerateOptions, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CapevalError, match=r".") as caught:
        choose_model(choice)
    assert isinstance(caught.value, UsageError)
    assert said in str(caught.value)


def test_a_server_runs_what_the_catalogue_says_of_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = "http://gpu:8000/v1"
    by_name = choose_model(GenerateOptions("qwen2-vl-7b", base_url=url))
    by_hub = choose_model(GenerateOptions("Qwen/Qwen2-VL-7B-Instruct", base_url=url))
    unknown = choose_model(GenerateOptions("my-finetune", base_url=url))
    assert by_name
    assert by_hub
    assert unknown
    assert (by_name.reached, by_name.frames, by_name.images) == ("endpoint", "2fps", "video")
    assert (by_hub.name, by_hub.frames) == ("Qwen/Qwen2-VL-7B-Instruct", "2fps")
    assert (unknown.name, unknown.frames) == ("my-finetune", "32")
    assert choose_model(GenerateOptions(base_url=url)) is None
