"""The shapes of `gpu-mha bench` (host/cli/bench_shapes.c), and random input for them."""

from dataclasses import dataclass

import numpy as np

# What all copies of a shape's input come to, so that caches hold little of it; and how many copies
# at most, which keeps small shapes quick to set up.
TOUCHED_BYTES = 256 << 20
COPIES_MOST = 16


@dataclass(frozen=True)
class Shape:
    name: str
    B: int
    H: int
    HKV: int
    NQ: int
    NK: int
    D: int
    causal: bool = False
    window_left: int = -1  # with a window, the last query stands at the last key
    shortest: int = 0  # key lengths grow evenly from here to NK; 0: all keys
    dtype: str = "float32"

    @property
    def lengths(self):
        """(B) int32, or None where every batch entry has all keys."""
        if not self.shortest:
            return None
        steps = np.arange(self.B, dtype=np.int64) * (self.NK - self.shortest)
        return (self.shortest + steps // (self.B - 1)).astype(np.int32)

    @property
    def mask(self):
        """Boolean, True = visible, broadcasts to (B, H, NQ, NK); None where all are."""
        mask = None
        position = np.arange(self.NQ)[:, None] + self.NK - self.NQ
        key = np.arange(self.NK)[None, :]
        if self.causal:
            mask = (key <= position)[None, None]
        if self.window_left >= 0:
            window = (key >= position - self.window_left) & (key <= position)
            mask = window[None, None]
        if self.shortest:
            mask = (key < self.lengths[:, None])[:, None, None, :]
        return mask

    def inputs(self):
        """Copies of (query, key, value), each (B, heads, N, D) with mean 0 and variance 1."""
        random = np.random.default_rng(20220527)
        rows = self.B * (self.H * self.NQ + 2 * self.HKV * self.NK)
        size = rows * self.D * np.dtype(self.dtype).itemsize
        count = int(min(COPIES_MOST, max(2, -(-TOUCHED_BYTES // size))))

        def normal(heads, n):
            values = random.standard_normal((self.B, heads, n, self.D), dtype=np.float32)
            return values.astype(self.dtype)

        return [
            (normal(self.H, self.NQ), normal(self.HKV, self.NK), normal(self.HKV, self.NK))
            for _ in range(count)
        ]


@dataclass(frozen=True)
class Layer:
    """Self-attention with four projections of width H * D and their biases."""

    name: str
    B: int
    H: int
    N: int
    D: int
    dtype: str = "float32"

    @property
    def width(self):
        return self.H * self.D

    def inputs(self):
        """Copies of (input (B, N, width), weights, biases): weights (4, width, width) of q, k, v and
        the output, as torch.nn.Linear stores them, with variance 1 / width; biases (4, width) and
        input with variance 1."""
        random = np.random.default_rng(20220527)
        size = 4 * (self.B * self.N * self.width + 4 * self.width**2)
        count = int(min(COPIES_MOST, max(2, -(-TOUCHED_BYTES // size))))

        def normal(*dims):
            return random.standard_normal(dims, dtype=np.float32)

        return [
            (normal(self.B, self.N, self.width),
             normal(4, self.width, self.width) / np.float32(self.width**0.5),
             normal(4, self.width))
            for _ in range(count)
        ]


SHAPES = [
    Shape("prefill-64", 1, 12, 12, 1024, 1024, 64),
    Shape("prefill-128", 1, 8, 8, 2048, 2048, 128),
    Shape("causal-64", 1, 12, 12, 2048, 2048, 64, causal=True),
    Shape("causal-128", 1, 8, 8, 4096, 4096, 128, causal=True),
    Shape("gqa", 1, 32, 8, 1024, 1024, 128, causal=True),
    Shape("bert", 8, 12, 12, 128, 128, 64, shortest=37),
    Shape("tiny", 32, 12, 12, 32, 32, 32),
    Shape("odd", 2, 7, 7, 777, 1003, 80, window_left=255),
    Shape("long", 1, 2, 2, 16384, 16384, 64, causal=True),
    Shape("decode", 1, 32, 8, 1, 4096, 128),
    Shape("decode-batch", 16, 32, 8, 1, 1024, 128, shortest=200),
    Shape("decode-f16", 1, 32, 8, 1, 4096, 128, dtype="float16"),
    Shape("prefill-f16", 1, 8, 8, 2048, 2048, 128, dtype="float16"),
    Shape("cross", 1, 8, 8, 1, 64, 64),
    Layer("layer-768", 1, 12, 1024, 64),
]
