"""gpu_mha from Python: a plan on buffers that lie over NumPy arrays, so that nothing is copied on
a CPU. Just the structs of gpu_mha.h that the shapes need, as version 0.1 has them."""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p

import numpy as np

F32, F16 = 0, 1
I32 = 1
BOTTOM_RIGHT = 1
CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR = 1, 8
ALIGNMENT = 128  # bytes


class Tensor(ctypes.Structure):
    _fields_ = [("type", c_int), ("layout", c_int),
                ("stride_b", c_int64), ("stride_h", c_int64), ("stride_n", c_int64)]


class Mask(ctypes.Structure):
    _fields_ = [("type", c_int), ("strided", c_int),
                ("shape", c_int64 * 4), ("stride", c_int64 * 4)]


class Desc(ctypes.Structure):
    _fields_ = (
        [("struct_size", c_size_t)]
        + [(name, c_int64) for name in ("B", "H", "HKV", "NQ", "NK", "NP", "DK", "DV")]
        + [(name, Tensor) for name in ("query", "key", "value", "past_key", "past_value", "output")]
        + [("has_scale", c_int), ("scale", c_float), ("softcap", c_float),
           ("mask", Mask), ("bias", Mask), ("key_lengths", c_int),
           ("causal", c_int), ("offset_kind", c_int), ("offset", c_int64),
           ("has_window", c_int), ("window_left", c_int64), ("window_right", c_int64),
           ("alibi", c_int), ("sinks", c_int), ("dropout", c_float), ("dropout_seed", c_uint64),
           ("lse", c_int), ("weights", c_int), ("scores", c_int), ("method", c_int)]
    )


class Buffer(ctypes.Structure):
    _fields_ = [("mem", c_void_p), ("offset", c_uint64)]


class Buffers(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t)] + [
        (name, Buffer) for name in (
            "query", "key", "value", "past_key", "past_value", "mask", "bias", "key_lengths",
            "alibi_slopes", "sinks", "output", "lse", "weights", "scores", "workspace")
    ]


class LayerDesc(ctypes.Structure):
    _fields_ = (
        [("struct_size", c_size_t), ("attention", POINTER(Desc))]
        + [(name, c_int64) for name in ("EQ", "EK", "EV", "EO")]
        + [("weight_type", c_int), ("packed_qkv", c_int)]
        + [(name, c_int) for name in ("bias_q", "bias_k", "bias_v", "bias_out")]
    )


class LayerBuffers(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t)] + [
        (name, Buffer) for name in (
            "query_input", "key_input", "value_input", "weight_q", "weight_k", "weight_v",
            "weight_out", "bias_q", "bias_k", "bias_v", "bias_out", "mask", "bias", "key_lengths",
            "alibi_slopes", "sinks", "output", "lse", "weights", "scores", "workspace")
    ]


class Device:
    """A context and a queue."""

    def __init__(self, library, selector=None):
        self.lib = ctypes.CDLL(library)
        self.cl = ctypes.CDLL("libOpenCL.so.1")
        self.lib.gpu_mha_last_error.restype = c_char_p
        self.lib.gpu_mha_version.restype = c_char_p
        self.lib.gpu_mha_plan_text.restype = c_char_p
        self.lib.gpu_mha_plan_workspace_bytes.restype = c_size_t
        for name in ("gpu_mha_context_cl", "gpu_mha_context_device"):
            getattr(self.lib, name).restype = c_void_p
            getattr(self.lib, name).argtypes = [c_void_p]
        for name in ("gpu_mha_plan_text", "gpu_mha_plan_workspace_bytes"):
            getattr(self.lib, name).argtypes = [c_void_p]
        self.lib.gpu_mha_plan_create.argtypes = [c_void_p, POINTER(Desc), POINTER(c_void_p)]
        self.lib.gpu_mha_enqueue.argtypes = [c_void_p, c_void_p, POINTER(Buffers), c_int, c_void_p,
                                             c_void_p]
        self.lib.gpu_mha_layer_plan_create.argtypes = [c_void_p, POINTER(LayerDesc),
                                                       POINTER(c_void_p)]
        self.lib.gpu_mha_layer_enqueue.argtypes = [c_void_p, c_void_p, POINTER(LayerBuffers), c_int,
                                                   c_void_p, c_void_p]
        self.cl.clCreateCommandQueue.restype = c_void_p
        self.cl.clCreateCommandQueue.argtypes = [c_void_p, c_void_p, c_uint64, POINTER(c_int)]
        self.cl.clCreateBuffer.restype = c_void_p
        self.cl.clCreateBuffer.argtypes = [c_void_p, c_uint64, c_size_t, c_void_p, POINTER(c_int)]
        self.cl.clEnqueueReadBuffer.argtypes = [c_void_p, c_void_p, c_int, c_size_t, c_size_t,
                                                c_void_p, c_int, c_void_p, c_void_p]
        self.cl.clFinish.argtypes = [c_void_p]
        self.context = c_void_p()
        self.check(self.lib.gpu_mha_context_create(
            selector.encode() if selector else None, byref(self.context)))
        self.cl_context = self.lib.gpu_mha_context_cl(self.context)
        code = c_int()
        self.queue = self.cl.clCreateCommandQueue(
            self.cl_context, self.lib.gpu_mha_context_device(self.context), 0, byref(code))
        self.check_cl(code.value)

    @property
    def version(self):
        return self.lib.gpu_mha_version().decode()

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.gpu_mha_last_error().decode())

    @staticmethod
    def check_cl(code):
        if code:
            raise RuntimeError(f"OpenCL call failed with code {code}")

    def buffer(self, array):
        """A buffer over the bytes of `array`, which must outlive it."""
        code = c_int()
        mem = self.cl.clCreateBuffer(self.cl_context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                     array.nbytes, array.ctypes.data, byref(code))
        self.check_cl(code.value)
        return Buffer(mem, 0)


def aligned(array):
    """A copy that begins where a driver's own buffers do; NumPy's begin in the middle of a cache
    line, and then each vector lies in two."""
    room = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % ALIGNMENT
    copy = room[begin:begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class Operation:
    """One shape on one device; run(i) computes copy i of the inputs and waits for it."""

    device = plan = output = buffers = None

    @property
    def variant(self):
        return self.device.lib.gpu_mha_plan_text(self.plan).decode()

    def enqueue(self, copy):
        raise NotImplementedError

    def run(self, copy):
        self.device.check(self.enqueue(copy))
        self.device.check_cl(self.device.cl.clFinish(self.device.queue))

    def result(self, copy):
        """float32."""
        self.run(copy)
        host = np.empty_like(self.output)
        self.device.check_cl(self.device.cl.clEnqueueReadBuffer(
            self.device.queue, self.buffers[copy].output.mem, 1, 0, host.nbytes, host.ctypes.data,
            0, None, None))
        return host.astype(np.float32)


class Layer(Operation):
    """A whole layer; the output is (B, N, width)."""

    def __init__(self, device, shape, inputs):
        self.device = device
        attention = Desc(struct_size=ctypes.sizeof(Desc), B=shape.B, H=shape.H, HKV=shape.H,
                         NQ=shape.N, NK=shape.N, DK=shape.D, DV=shape.D)
        width = shape.width
        desc = LayerDesc(struct_size=ctypes.sizeof(LayerDesc),
                         attention=ctypes.pointer(attention), EQ=width, EK=width, EV=width,
                         EO=width, bias_q=1, bias_k=1, bias_v=1, bias_out=1)
        self.plan = c_void_p()
        device.check(device.lib.gpu_mha_layer_plan_create(device.context, byref(desc),
                                                          byref(self.plan)))
        # What the buffers lie over is kept here.
        size = device.lib.gpu_mha_plan_workspace_bytes(self.plan)
        self.inputs = [tuple(aligned(array) for array in copy) for copy in inputs]
        self.workspace = aligned(np.zeros(size, np.uint8))
        self.output = aligned(np.zeros(inputs[0][0].shape, shape.dtype))
        self.buffers = [self.bind(*copy) for copy in self.inputs]

    def bind(self, values, weights, biases):
        given = self.device.buffer(values)
        buffers = LayerBuffers(struct_size=ctypes.sizeof(LayerBuffers), query_input=given,
                               key_input=given, value_input=given,
                               output=self.device.buffer(self.output),
                               workspace=self.device.buffer(self.workspace))
        for index, name in enumerate(("q", "k", "v", "out")):
            setattr(buffers, f"weight_{name}", self.device.buffer(weights[index]))
            setattr(buffers, f"bias_{name}", self.device.buffer(biases[index]))
        return buffers

    def enqueue(self, copy):
        return self.device.lib.gpu_mha_layer_enqueue(
            self.plan, self.device.queue, byref(self.buffers[copy]), 0, None, None)


class Attention(Operation):
    """Attention alone; the output is (B, H, NQ, D)."""

    def __init__(self, device, shape, inputs):
        self.device = device
        desc = Desc(struct_size=ctypes.sizeof(Desc), B=shape.B, H=shape.H, HKV=shape.HKV,
                    NQ=shape.NQ, NK=shape.NK, DK=shape.D, DV=shape.D)
        for tensor in (desc.query, desc.key, desc.value, desc.output):
            tensor.type = F16 if shape.dtype == "float16" else F32
        desc.causal = shape.causal
        if shape.window_left >= 0:
            desc.has_window, desc.window_left, desc.offset_kind = 1, shape.window_left, BOTTOM_RIGHT
        if shape.shortest:
            desc.key_lengths = I32
        self.plan = c_void_p()
        device.check(device.lib.gpu_mha_plan_create(device.context, byref(desc), byref(self.plan)))
        size = device.lib.gpu_mha_plan_workspace_bytes(self.plan)
        # What the buffers lie over is kept here.
        self.inputs = [tuple(aligned(array) for array in copy) for copy in inputs]
        self.workspace = aligned(np.zeros(max(size, 1), np.uint8))
        self.output = aligned(np.zeros(inputs[0][0].shape, shape.dtype))
        self.lengths = shape.lengths
        workspace = device.buffer(self.workspace)
        output = device.buffer(self.output)
        lengths = device.buffer(self.lengths) if shape.shortest else Buffer()
        self.buffers = [
            Buffers(struct_size=ctypes.sizeof(Buffers), query=device.buffer(query),
                    key=device.buffer(key), value=device.buffer(value), key_lengths=lengths,
                    output=output, workspace=workspace if size else Buffer())
            for query, key, value in self.inputs
        ]

    def enqueue(self, copy):
        return self.device.lib.gpu_mha_enqueue(
            self.plan, self.device.queue, byref(self.buffers[copy]), 0, None, None)
