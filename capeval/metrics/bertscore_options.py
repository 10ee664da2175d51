"""The options of BERTScore."""

from dataclasses import KW_ONLY

from capeval.options import MODEL, declares, option


@declares
class BERTScoreOptions:
    """How `bertscore` compares texts.

    Parameters
    ----------
    bertscore_model : The model of `--metric bertscore`: a name of the hub, or a folder such as
        ./mine.
    bertscore_layer : How many of its layers to use. By default as its authors chose; a model that
        they did not try needs this option.
    bertscore_idf : Weigh tokens by their inverse document frequency in the references.
    bertscore_rescale : Rescale with a baseline: en for the published one of the model, en:NAME for
        that of another name, or a file.
    bertscore_fast_tokenizer : Put no space before texts for RoBERTa, as bert-score does with its
        option of this name, or with transformers 5.
    device : Where local models run: cuda, one GPU such as cuda:1, mps or cpu. By default the best
        available.
    """

    _: KW_ONLY
    bertscore_model: str = option("roberta-large", panel=MODEL, metavar="MODEL")
    bertscore_layer: int | None = option(None, panel=MODEL, metavar="N", min=0)
    bertscore_idf: bool = option(False, panel=MODEL)
    bertscore_rescale: str | None = option(None, panel=MODEL, metavar="LANG|FILE")
    bertscore_fast_tokenizer: bool = option(False, panel=MODEL)
    device: str | None = option(None, panel=MODEL, metavar="NAME")
