import json
import shlex
from pathlib import Path

import pytest

from capeval.captioners.catalogue import ModelEntry, find_model, read_catalogue
from capeval.captioners.generate import load_caption_prompts
from capeval.errors import InputError
from capeval.video import open_reader

CATALOGUE = read_catalogue()

# Table 7 of the paper: 2 FPS for Qwen2-VL, which the benchmark's code leaves to the
# utilities of Qwen, and 1/2 FPS for the closed models, whose frames it lists itself.
PAPER = {
    "qwen-2fps": "qwen2-vl-72b qwen2-vl-7b",
    "32": "llava-video-72b llava-video-7b llava-onevision-72b llava-onevision-7b internvl2-76b "
    "internvl2-40b internvl2-26b internvl2-8b tarsier-34b tarsier-7b minicpm-v-2.6 kangaroo "
    "longva-7b",
    "16": "pllava-34b pllava-13b pllava-7b",
    "tuna-auto": "gpt-4o-2024-08-06 gemini-1.5-pro-002 gemini-1.5-flash-002",
}


def test_the_papers_models_have_the_frames_of_its_table_7() -> None:
    expected = {name: frames for frames, names in PAPER.items() for name in names.split()}
    assert {e.name: e.frames for e in CATALOGUE.values() if e.paper} == expected


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda e: e.name)
def test_every_entry_can_be_used_or_says_why_not(entry: ModelEntry) -> None:
    open_reader(entry.frames)
    load_caption_prompts(None, entry.prompt)
    # ERNIE's main branch has code of its own, which does not run here.
    assert entry.revision is None or entry.name.startswith("ernie-")
    if entry.reached == "none":
        assert entry.note
    elif entry.reached == "server":
        assert entry.serve
    elif entry.reached == "transformers":
        assert entry.hub
        assert entry.memory
    if entry.serve is None:
        return
    # Servers take frames as they are sent, and give them the authors' size.
    words = shlex.split(entry.serve)
    assert words[:3] == ["vllm", "serve", entry.hub]
    # Without it vLLM refuses the frames' times.
    assert ("--trust-request-mm-kwargs" in words) is (entry.images == "video")
    at = words.index("--mm-processor-kwargs") if "--mm-processor-kwargs" in words else None
    given = {} if at is None else json.loads(words[at + 1])
    if entry.name.startswith("internvl2-"):
        # One tile of 256 tokens a frame: 8,192 for 32 frames.
        assert given == {"max_dynamic_patch": 1}
    elif entry.name.startswith(("qwen2-vl-", "qwen2.5-vl-")):
        assert given == {"min_pixels": 128 * 28 * 28, "max_pixels": 768 * 28 * 28}


def test_a_hub_id_needs_no_entry() -> None:
    entry = find_model("hf:some/Model-1B", CATALOGUE)
    assert (entry.name, entry.hub) == ("some/Model-1B", "some/Model-1B")
    assert (entry.reached, entry.frames) == ("transformers", "32")
    # One that is known keeps what is known of it.
    assert find_model("hf:Qwen/Qwen2-VL-7B-Instruct", CATALOGUE).frames == "qwen-2fps"
    assert find_model("Qwen/Qwen2-VL-7B-Instruct", CATALOGUE).name == "qwen2-vl-7b"
    # It means the model as its authors run it.
    assert find_model("lmms-lab/LLaVA-Video-7B-Qwen2", CATALOGUE).name == "llava-video-7b"


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "capeval.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models = 3", "models: must be a table, not 3"),
        ('[models.m]\nhub = "a/b"\nframe = "32"', 'models."m": frame: is not a known field'),
        ('[models."llava-vido-7b"]\nframes = "8"', 'did you mean "llava-video-7b"?'),
        ('[models.m]\nhub = "a/b"\nmax_new_tokens = "many"', 'not "many"'),
        ('[models.m]\nreached = "server"\nhub = "a/b"', "needs 'serve'"),
        ('[models.m]\nbase_url = "gpu:8000/v1"', 'models."m".base_url: '),
        ('[models.m]\nhub = "a/b"\nimages = "webp"', "must be 'jpeg'"),
        ('[models.m]\nhub = "a/b"\nname = "n"', 'models."m".name: is the table'),
    ],
)
def test_a_malformed_entry_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_catalogue(own(tmp_path, text))
    line = str(caught.value)
    assert line.startswith(f"{tmp_path / 'capeval.toml'}: ")
    assert said in line
    assert "\n" not in line
