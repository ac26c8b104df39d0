#!/usr/bin/env python3
"""Measures gpu_mha against other attention code on the same CPU cores.

    setup.sh DIR                       makes a Python environment with the pinned peers
    DIR/bin/python peers.py LIBRARY    LIBRARY is build/host/libgpu_mha.so

Each peer has a process of its own, in which it and gpu_mha take turns in short blocks on the same
inputs; their results must agree. A ratio is the peer's time by ours, of two blocks that follow each
other, the median over all such pairs: above 1 we are faster. Cores are those that the process may
use (taskset).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is

from frameworks import PEERS, Unsupported  # noqa: E402
from shapes import SHAPES, Layer  # noqa: E402

# A block is one run, or as many as fill this time; the first of several is not counted.
BLOCK_SECONDS = 0.03
# Between blocks: threads of the one that wait busily for more work would slow the other.
PAUSE_SECONDS = 0.02
BLOCKS_LEAST = 3
# |difference| of two right results, of mean 0 and variance below 1.
TOLERANCE = {"float32": 1e-4, "float16": 4e-3}


def run_block(attention, copies, start):
    """Runs copies start, start + 1, ...; returns their median seconds and the next copy."""
    end = time.perf_counter() + BLOCK_SECONDS
    block = []
    while not block or time.perf_counter() < end:
        begin = time.perf_counter()
        attention.run(start % copies)
        block.append(time.perf_counter() - begin)
        start += 1
    time.sleep(PAUSE_SECONDS)
    return statistics.median(block[1:] or block), start


def compare(ours, peer, copies, seconds):
    """Median seconds of both, and the median ratio of neighbouring blocks."""
    our_times, peer_times = [], []
    our_next = peer_next = 0
    end = time.perf_counter() + seconds
    while len(our_times) < BLOCKS_LEAST or time.perf_counter() < end:
        our_time, our_next = run_block(ours, copies, our_next)
        peer_time, peer_next = run_block(peer, copies, peer_next)
        our_times.append(our_time)
        peer_times.append(peer_time)
    ratios = [theirs / one for one, theirs in zip(our_times, peer_times, strict=True)]
    return [statistics.median(values) for values in (our_times, peer_times, ratios)]


def measure(device, peer_class, shape, seconds, threads):
    import numpy as np

    import ours as gpu_mha

    is_layer = isinstance(shape, Layer)
    if is_layer:
        peer_class = getattr(peer_class, "layer", None)
        if peer_class is None:
            return {"unsupported": "no layer"}
    inputs = shape.inputs()
    # The peer may write into what it is given (a cache, in place).
    try:
        peer = peer_class(shape, [tuple(a.copy() for a in copy) for copy in inputs], threads)
        expected = peer.result(0)
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Exception as reason:  # whatever a peer throws, the others are still of interest
        return {"unsupported": f"{type(reason).__name__}: {reason}"[:300]}
    ours = (gpu_mha.Layer if is_layer else gpu_mha.Attention)(device, shape, inputs)
    difference = float(np.abs(ours.result(0) - expected).max())
    our_seconds, peer_seconds, ratio = compare(ours, peer, len(inputs), seconds)
    return {"ours_ms": 1e3 * our_seconds, "peer_ms": 1e3 * peer_seconds, "ratio": ratio,
            "difference": difference, "agrees": difference <= TOLERANCE[shape.dtype],
            "variant": ours.variant}


def child(arguments):
    """One peer on all shapes; one line of JSON each."""
    from ours import Device

    peer_class = next(peer for peer in PEERS if peer.name == arguments.child)
    device = Device(arguments.library, arguments.device)
    threads = len(os.sched_getaffinity(0))
    print(json.dumps({"peer": peer_class.name, "version": peer_class.version(),
                      "ours": device.version}), flush=True)
    for shape in SHAPES:
        if not arguments.names or shape.name in arguments.names:
            result = measure(device, peer_class, shape, arguments.seconds, threads)
            print(json.dumps({"shape": shape.name} | result), flush=True)


def run_child(peer_class, arguments, results):
    """Fills results[shape][peer]; returns what to call the peer, or None if it does not start."""
    command = [sys.executable, __file__, arguments.library, "--child", peer_class.name,
               "--seconds", str(arguments.seconds)]
    command += ["--device", arguments.device] if arguments.device else []
    command += ["--names", ",".join(arguments.names)] if arguments.names else []
    title = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            if "peer" in row:
                title = f"{row['peer']} {row['version']}"
                continue
            results.setdefault(row["shape"], {})[title] = row
            print(f"{title}: {line}", end="", file=sys.stderr)
    if process.returncode:
        print(f"{peer_class.name}: ended with {process.returncode}", file=sys.stderr)
    return title


def cell(row):
    if row is None or "unsupported" in row:
        return "-"
    return f"{row['ratio']:.2f} ({row['peer_ms']:.3g} ms)" + ("" if row["agrees"] else " DIFFERS")


def print_table(titles, results):
    print("| shape | ours | " + " | ".join(titles) + " | best peer |")
    print("|---" * (len(titles) + 3) + "|")
    for shape in SHAPES:
        rows = results.get(shape.name)
        if not rows:
            continue
        done = [row for row in rows.values() if "ratio" in row]
        ours = f"{statistics.median(row['ours_ms'] for row in done):.3g} ms" if done else "-"
        worst = f"{min(row['ratio'] for row in done):.2f}" if done else "-"
        cells = " | ".join(cell(rows.get(title)) for title in titles)
        print(f"| {shape.name} | {ours} | {cells} | {worst} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libgpu_mha.so")
    parser.add_argument("--names", type=lambda text: text.split(","), help="only these shapes")
    parser.add_argument("--peers", type=lambda text: text.split(","),
                        help="only these: " + "; ".join(peer.name for peer in PEERS))
    parser.add_argument("--seconds", type=float, default=3, help="per shape and peer")
    parser.add_argument("--device", help="as GPU_MHA_DEVICE; the peers run on the CPU")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = set(arguments.names or []) - {shape.name for shape in SHAPES}
    unknown |= set(arguments.peers or []) - {peer.name for peer in PEERS}
    if unknown:
        parser.error("unknown: " + ", ".join(sorted(unknown)))
    if arguments.child:
        child(arguments)
        return 0
    results = {}
    titles = [run_child(peer, arguments, results) for peer in PEERS
              if not arguments.peers or peer.name in arguments.peers]
    print_table([title for title in titles if title], results)
    rows = [row for peers in results.values() for row in peers.values()]
    wrong = any(not row.get("agrees", True) for row in rows)
    return 1 if wrong or None in titles else 0


if __name__ == "__main__":
    sys.exit(main())
