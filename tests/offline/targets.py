"""The targets of registers.py: how each compiler is called, and what it tells.

Occupancy is how many waves (warps, hardware threads) a compute unit can hold at a time beside how
many it has places for. The limits are published ones; the name of the document stands beside each.
"""

import dataclasses
import glob
import os
import re
import shutil
import struct
import subprocess


class CompileError(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Result:
    group: int  # work-items per group
    registers: str  # as it is told
    register_count: int
    spilled: int  # bytes that go to memory; NVIDIA: of stores and loads, else of registers
    stack: int  # bytes of private memory per work-item that is no register
    local: int  # bytes of local memory per group
    waves: int
    waves_max: int

    def cells(self):
        percent = round(100 * self.waves / self.waves_max)
        return (str(self.group), self.registers, str(self.spilled), str(self.stack),
                str(self.local), f"{self.waves} of {self.waves_max}, {percent}%")


def worst(results):
    """The largest of each figure, the smallest occupancy."""
    results = list(results)
    most = max(results, key=lambda result: result.register_count)
    return Result(max(r.group for r in results), most.registers, most.register_count,
                  max(r.spilled for r in results), max(r.stack for r in results),
                  max(r.local for r in results), min(r.waves for r in results),
                  results[0].waves_max)


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", errors="replace", check=False, **options)
    if done.returncode != 0:
        last = [line for line in done.stdout.splitlines() if line.strip()][-1:]
        raise CompileError(f"{os.path.basename(command[0])} ended with {done.returncode}"
                           + (f": {last[0]}" if last else ""))
    return done.stdout


def first_version(command):
    text = run(command)
    return re.search(r"\d+\.\d+(\.\d+)*", text).group(0)


def round_up(value, step):
    return -(-value // step) * step


CLANG = next((c for c in (os.environ.get("CLANG"), "clang-15", "clang-16") if c and
              shutil.which(c)), None)
# __OPENCL_VERSION__ is what drivers define and a bare compiler does not.
CLANG_OPTIONS = ["-x", "cl", "-Xclang", "-finclude-default-header", "-D__OPENCL_VERSION__=120",
                 "-Wno-unknown-warning-option", "-Wno-linker-warnings"]


def clang(launch, options, output):
    run([CLANG, *CLANG_OPTIONS, *launch.options.split(), *options, "-o", output, launch.source])


class Target:
    def __init__(self, label):
        self.label = label


class Nvidia(Target):
    """Per multiprocessor, from the CUDA C++ Programming Guide, "Technical Specifications per
    Compute Capability"; a warp gets registers in steps of 256, a block has 1 KiB of shared memory
    of its own (CUDA occupancy calculator; "Tuning CUDA Applications for NVIDIA Ampere")."""

    library = "/usr/lib/clc/nvptx64--nvidiacl.bc"
    registers, warps_max, blocks_max = 65536, 64, 32
    shared = {"sm_80": 164 * 1024, "sm_90": 228 * 1024}

    def missing(self):
        if CLANG is None:
            return "no clang-15 (Debian: clang-15)"
        if not os.path.exists(self.library):
            return f"no {self.library} (Debian: libclc-15)"
        if shutil.which("ptxas") is None:
            return "no ptxas (Debian: nvidia-cuda-toolkit)"
        return None

    def versions(self):
        ptxas = re.search(r"V(\d+\.\d+\.\d+)", run(["ptxas", "--version"])).group(1)
        return [f"clang {first_version([CLANG, '--version'])}", f"ptxas {ptxas}"]

    def compile(self, launch, base):
        # The assembler knows later chips than this front end does, which knows all they need.
        target = ["-target", "nvptx64-nvidia-nvcl", "-Xclang", "-target-cpu", "-Xclang", "sm_80",
                  "-Xclang", "-target-feature", "-Xclang", "+ptx72"]
        clang(launch, [*target, "-O3", "-Xclang", "-mlink-builtin-bitcode", "-Xclang",
                       self.library, "-S"], base + ".ptx")
        clang(launch, [*target, "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes"],
              base + ".ll")
        with open(base + ".ll", encoding="utf-8") as file:
            group = required_group(file.read(), launch.kernel)
        if group:
            require_group(base + ".ptx", launch.kernel, group)
        told = run(["ptxas", "-v", f"-arch={self.label}", base + ".ptx", "-o", base + ".cubin"])
        part = told[told.index(f"entry function '{launch.kernel}'"):]
        stack, stores, loads = map(int, re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
            part).groups())
        registers = int(re.search(r"Used (\d+) registers", part).group(1))
        shared = re.search(r"(\d+) bytes smem", part)
        local = (int(shared.group(1)) if shared else 0) + launch.local_argument
        group = group or launch.group
        waves = self.warps(registers, group, local)
        return Result(group, str(registers), registers, stores + loads, stack, local, waves,
                      self.warps_max)

    def warps(self, registers, group, local):
        per_block = round_up(group, 32) // 32
        by_registers = self.registers // (round_up(registers, 8) * 32) // per_block
        by_shared = self.shared[self.label] // (round_up(local, 128) + 1024)
        blocks = min(by_registers, by_shared, self.blocks_max, self.warps_max // per_block)
        return blocks * per_block


def required_group(text, kernel):
    """Of a kernel with reqd_work_group_size, from its metadata; else 0."""
    head = re.search(rf"^define .*@{kernel}\(.*$", text, re.MULTILINE).group(0)
    number = re.search(r"!reqd_work_group_size !(\d+)", head)
    if not number:
        return 0
    sizes = re.search(rf"^!{number.group(1)} = !{{i32 (\d+), i32 (\d+), i32 (\d+)}}", text,
                      re.MULTILINE)
    x, y, z = map(int, sizes.groups())
    return x * y * z


def require_group(path, kernel, group):
    """What NVIDIA's compiler makes of reqd_work_group_size and clang's does not."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    at = text.index("{", text.index(f".entry {kernel}("))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{text[:at]}.reqntid {group}, 1, 1\n{text[at:]}")


class Amd(Target):
    """gfx90a, per SIMD of four in a compute unit: "AMD Instinct MI200 Instruction Set Architecture"
    and LLVM's "User Guide for AMDGPU Backend": 512 registers a lane (both files together) in steps
    of 8, 8 waves. gfx1030, per SIMD of four in a work-group processor: "RDNA 2 Instruction Set
    Architecture" and the same guide: 1024 registers a lane in steps of 16, 16 waves. Local memory:
    64 KiB for a compute unit, 128 KiB for a work-group processor, in steps of 512 bytes."""

    # registers, step, waves per SIMD, local bytes for four SIMDs, lanes of a wave
    limits = {"gfx90a": (512, 8, 8, 64 * 1024, 64), "gfx1030": (1024, 16, 16, 128 * 1024, 32)}
    simds = 4

    def bitcode(self):
        found = sorted(glob.glob("/usr/lib/*/amdgcn/bitcode/opencl.bc")
                       + glob.glob("/opt/rocm*/amdgcn/bitcode/opencl.bc"))
        return os.path.dirname(found[0]) if found else None

    def missing(self):
        if CLANG is None:
            return "no clang-15 (Debian: clang-15)"
        if self.bitcode() is None:
            return "no amdgcn/bitcode/opencl.bc (Debian: rocm-device-libs)"
        return None

    def versions(self):
        return [f"clang {first_version([CLANG, '--version'])}"]

    def compile(self, launch, base):
        clang(launch, ["-target", "amdgcn-amd-amdhsa", f"-mcpu={self.label}", "-O3",
                       "-mcode-object-version=4", f"--rocm-device-lib-path={self.bitcode()}",
                       "-S"], base + ".s")
        with open(base + ".s", encoding="utf-8") as file:
            text = file.read()
        notes = text[text.index("amdhsa.kernels:"):]
        notes = next(part for part in notes.split("\n  - ")
                     if re.search(rf"\.name: +{launch.kernel}$", part, re.MULTILINE))

        def number(name):
            return int(re.search(rf"\.{name}: +(\d+)", notes).group(1))

        required = re.search(r"\.reqd_workgroup_size:\s+- +(\d+)\s+- +(\d+)\s+- +(\d+)", notes)
        group = launch.group
        if required:
            x, y, z = map(int, required.groups())
            group = x * y * z
        registers, scalars = number("vgpr_count"), number("sgpr_count")
        spilled = 4 * number("vgpr_spill_count")
        # Scalars that do not fit lie in lanes of vector registers, which are counted as such.
        lanes = number("sgpr_spill_count")
        local = number("group_segment_fixed_size") + launch.local_argument
        waves = self.waves(registers, group, local)
        told = f"{registers}, {scalars} scalar" + (f", {lanes} in lanes" if lanes else "")
        return Result(group, told, registers, spilled, number("private_segment_fixed_size"), local,
                      waves, self.simds * self.limits[self.label][2])

    def waves(self, registers, group, local):
        has, step, waves_max, local_bytes, lanes = self.limits[self.label]
        per_group = round_up(group, lanes) // lanes
        by_registers = min(waves_max, has // round_up(max(registers, 1), step)) * self.simds
        groups = by_registers // per_group
        if local:
            groups = min(groups, local_bytes // round_up(local, 512))
        return groups * per_group


class Intel(Target):
    """Per subslice or Xe core: "The Compute Architecture of Intel Processor Graphics Gen9" (8 units
    of 7 threads, 64 KiB) and "oneAPI GPU Optimization Guide" (DG2: 16 units of 8 threads; PVC: 8
    units of 8 threads; 128 KiB). With 256 registers a thread there are half as many threads."""

    limits = {"skl": (56, 64 * 1024), "dg2": (128, 128 * 1024), "pvc": (64, 128 * 1024)}
    register_bytes = {"skl": 32, "dg2": 32, "pvc": 64}

    def missing(self):
        if shutil.which("ocloc") is None:
            return "no ocloc (Debian: intel-opencl-icd)"
        return None

    def versions(self):
        told = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "intel-opencl-icd"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8",
                              check=False) if shutil.which("dpkg-query") else None
        return [f"ocloc {told.stdout}" if told and told.returncode == 0 else "ocloc"]

    def compile(self, launch, base):
        # The format with readable notes is asked for; it changes no code.
        told = run(["ocloc", "compile", "-file", launch.source, "-device", self.label, "-options",
                    launch.options, "-internal_options", "-cl-intel-allow-zebin", "-out_dir", base,
                    "-output", "kernel"])
        with open(glob.glob(os.path.join(base, "*.bin"))[0], "rb") as file:
            notes = section(file.read(), ".ze_info")
        notes = next(part for part in notes.split("\n  - name:")[1:]
                     if part.split("\n")[0].strip() == launch.kernel)

        def number(name):
            found = re.search(rf"\b{name}: +(\d+)", notes)
            return int(found.group(1)) if found else 0

        grf, simd = number("grf_count"), number("simd_size")
        # The compiler counts registers, of one hardware thread.
        spills = re.search(rf"kernel {launch.kernel} +compiled .* spilled around (\d+)", told)
        spilled = int(spills.group(1)) * self.register_bytes[self.label] if spills else 0
        stack = private_bytes(notes, simd)
        required = re.search(r"required_work_group_size: +\[ *(\d+), *(\d+), *(\d+)", notes)
        group = launch.group
        if required:
            x, y, z = map(int, required.groups())
            group = x * y * z
        local = number("slm_size") + launch.local_argument
        waves, waves_max = self.threads(grf, simd, group, local)
        return Result(group, f"{grf}, SIMD{simd}", 1000 * grf - simd, spilled, stack, local, waves,
                      waves_max)

    def threads(self, grf, simd, group, local):
        threads, local_bytes = self.limits[self.label]
        per_group = round_up(group, simd) // simd
        groups = (threads if grf <= 128 else threads // 2) // per_group
        if local:
            groups = min(groups, local_bytes // round_up(local, 1024))
        return groups * per_group, threads


def private_bytes(notes, simd):
    """Bytes per work-item of what the compiler keeps in memory; spills may be among them."""
    if "per_thread_memory_buffers" not in notes:
        return 0
    total = 0
    for buffer in notes[notes.index("per_thread_memory_buffers"):].split("- type:")[1:]:
        usage = re.search(r"usage: +(\w+)", buffer)
        size = re.search(r"size: +(\d+)", buffer)
        if usage and size and usage.group(1) in ("private_space", "single_space"):
            per_item = re.search(r"is_simt_thread: +true", buffer)
            total += int(size.group(1)) // (1 if per_item else simd)
    return total


def section(elf, wanted):
    """The text of a section of a 64-bit ELF file."""
    start, = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, start + i * size) for i in range(count)]
    for header in headers:
        at = headers[names][4] + header[0]
        if elf[at:elf.index(b"\0", at)].decode() == wanted:
            return elf[header[4]:header[4] + header[5]].decode()
    raise CompileError(f"no section {wanted}")


ALL = [Nvidia("sm_80"), Nvidia("sm_90"), Amd("gfx90a"), Amd("gfx1030"), Intel("skl"), Intel("dg2"),
       Intel("pvc")]


def find(wanted):
    """({label: target}, {label: why it is missing})"""
    found, missing = {}, {}
    for target in ALL:
        if wanted and target.label not in wanted:
            continue
        why = target.missing()
        if why is None:
            found[target.label] = target
        else:
            missing[target.label] = why
    return found, missing
