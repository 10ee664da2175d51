"""What loading any checkpoint has in common: errors in one line, and tensors that are missing."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from huggingface_hub.errors import StrictDataclassError

from capeval.errors import CapevalError, UsageError
from capeval.text import describe, one_line


def check_complete(model: str, info: Mapping[str, Any]) -> None:
    """Raise `UsageError` where the checkpoint lacks tensors."""
    # Missing weights would be initialised at random, with only a warning.
    missing = sorted(info.get("missing_keys") or ())
    if missing:
        raise UsageError(
            f"{model}: its checkpoint lacks {len(missing)} tensors, such as {missing[0]}"
        )


def check_vocabulary(model: str, tokenizer: Any) -> None:
    """Raise `UsageError` where a tokenizer has no vocabulary."""
    # Without its files transformers makes an empty one, which reads every text alike.
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise UsageError(f"{model}: its tokenizer has no vocabulary (tokenizer.json is missing)")


@contextmanager
def one_line_errors(model: str) -> Iterator[None]:
    """Turn whatever transformers raises over a checkpoint into one line."""
    try:
        yield
    except CapevalError:
        raise
    except (OSError, ValueError, KeyError, ImportError, StrictDataclassError) as error:
        if isinstance(error, OSError) and "couldn't connect to" in str(error):
            raise UsageError(
                f"{model}: the hub cannot be reached, and the model was not downloaded before; "
                "check the connection (and HF_ENDPOINT, if it is set), or name a folder as ./FOLDER"
            ) from error
        raise UsageError(f"{model}: cannot be loaded: {one_line(str(error), 220)}") from error
    except pickle.UnpicklingError as error:
        # torch's message advises to run the code in the file.
        raise UsageError(
            f"{model}: cannot be loaded: its weights are damaged, or hold code, which is never run"
        ) from error
    except Exception as error:
        # A damaged file or a malformed field can raise anything.
        raise UsageError(
            f"{model}: cannot be loaded: {one_line(describe(error, 220), 220)}"
        ) from error
