"""The peers. Each class prepares one shape; run(i) computes copy i of the inputs and returns when
the output is there, result(i) also gives it as (B, H, NQ, D). Whatever a peer likes better (layout,
a causal flag instead of a mask, grouped heads as rows) it gets, outside of the measured time.

Unsupported is raised where a peer has no way to compute a shape.
"""

import numpy as np


class Unsupported(Exception):
    pass


def grouped_as_rows(shape, query):
    """With one query per head, the heads of a group are as good as rows of one head: the same
    numbers, and each key is read once."""
    if shape.HKV == shape.H or shape.NQ != 1:
        return query
    return query.reshape(shape.B, shape.HKV, shape.H // shape.HKV, shape.D)


class Torch:
    name = "PyTorch"

    def __init__(self, shape, inputs, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch, self.shape = torch, shape
        self.inputs = [
            tuple(torch.from_numpy(np.ascontiguousarray(a))
                  for a in (grouped_as_rows(shape, query), key, value))
            for query, key, value in inputs
        ]
        self.options = {}
        if shape.causal:
            self.options["is_causal"] = True
        elif shape.mask is not None:
            self.options["attn_mask"] = torch.from_numpy(shape.mask)
        if self.inputs[0][0].shape[1] != shape.HKV:
            self.options["enable_gqa"] = True

    @staticmethod
    def version():
        import torch

        return torch.__version__.split("+")[0]

    def run(self, copy):
        with self.torch.inference_mode():
            return self.torch.nn.functional.scaled_dot_product_attention(
                *self.inputs[copy], **self.options)

    def result(self, copy):
        shape = self.shape
        return self.run(copy).float().numpy().reshape(shape.B, shape.H, shape.NQ, shape.D)


class TorchLayer:
    """torch.nn.MultiheadAttention, ready for inference: what its fast path needs is given."""

    def __init__(self, shape, inputs, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch = torch
        self.inputs = [torch.from_numpy(values) for values, _, _ in inputs]
        self.layers = [self.make(shape, weights, biases) for _, weights, biases in inputs]

    def make(self, shape, weights, biases):
        layer = self.torch.nn.MultiheadAttention(shape.width, shape.H, batch_first=True).eval()
        with self.torch.no_grad():
            layer.in_proj_weight.copy_(self.torch.from_numpy(weights[:3].reshape(-1, shape.width)))
            layer.in_proj_bias.copy_(self.torch.from_numpy(biases[:3].reshape(-1)))
            layer.out_proj.weight.copy_(self.torch.from_numpy(weights[3]))
            layer.out_proj.bias.copy_(self.torch.from_numpy(biases[3]))
        return layer

    def run(self, copy):
        values = self.inputs[copy]
        with self.torch.inference_mode():
            return self.layers[copy](values, values, values, need_weights=False)[0]

    def result(self, copy):
        return self.run(copy).numpy()


Torch.layer = TorchLayer


class OnnxRuntime:
    """MultiHeadAttention, or GroupQueryAttention on a shared key/value buffer, as its exporters
    write models."""

    name = "ONNX Runtime"

    def __init__(self, shape, inputs, threads):
        import onnxruntime

        self.ort, self.shape = onnxruntime, shape
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(
            self.model(shape), options, providers=["CPUExecutionProvider"])
        self.bindings = [self.bind(*copy) for copy in inputs]

    @staticmethod
    def version():
        import onnxruntime

        return onnxruntime.__version__

    @staticmethod
    def save(node, opsets, tensors, outputs):
        from onnx import helper

        graph = helper.make_graph(
            [node], "attention",
            [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in tensors],
            [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in outputs])
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid(*opset) for opset in opsets], ir_version=10)
        return model.SerializeToString()

    def model(self, shape):
        return self.grouped_model(shape) if shape.H != shape.HKV else self.plain_model(shape)

    def plain_model(self, shape):
        from onnx import TensorProto, helper

        if shape.dtype != "float32":
            raise Unsupported("MultiHeadAttention is f32 only on CPUs")
        width, kind = shape.H * shape.D, TensorProto.FLOAT
        names = ["query", "key", "value"]
        tensors = [("query", kind, [shape.B, shape.NQ, width]),
                   ("key", kind, [shape.B, shape.NK, width]),
                   ("value", kind, [shape.B, shape.NK, width])]
        if shape.shortest:
            names += ["", "lengths"]
            tensors.append(("lengths", TensorProto.INT32, [shape.B]))
        elif shape.mask is not None and not shape.causal:
            names += ["", "", "bias"]
            tensors.append(("bias", kind, [1, 1, shape.NQ, shape.NK]))
        node = helper.make_node("MultiHeadAttention", names, ["output"], domain="com.microsoft",
                                num_heads=shape.H, unidirectional=int(shape.causal))
        return self.save(node, [("", 21), ("com.microsoft", 1)], tensors,
                         [("output", kind, [shape.B, shape.NQ, width])])

    def grouped_model(self, shape):
        from onnx import TensorProto, helper

        kind = TensorProto.FLOAT16 if shape.dtype == "float16" else TensorProto.FLOAT
        cache = [shape.B, shape.HKV, shape.NK, shape.D]
        node = helper.make_node(
            "GroupQueryAttention",
            ["query", "key", "value", "past_key", "past_value", "last", "total"],
            ["output", "present_key", "present_value"], domain="com.microsoft",
            num_heads=shape.H, kv_num_heads=shape.HKV)
        return self.save(
            node, [("", 21), ("com.microsoft", 1)],
            [("query", kind, [shape.B, shape.NQ, shape.H * shape.D]),
             ("key", kind, [shape.B, shape.NQ, shape.HKV * shape.D]),
             ("value", kind, [shape.B, shape.NQ, shape.HKV * shape.D]),
             ("past_key", kind, cache), ("past_value", kind, cache),
             ("last", TensorProto.INT32, [shape.B]), ("total", TensorProto.INT32, [])],
            [("output", kind, [shape.B, shape.NQ, shape.H * shape.D]),
             ("present_key", kind, cache), ("present_value", kind, cache)])

    def value(self, array):
        return self.ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))

    @staticmethod
    def rows(array):
        """(B, N, heads * D)"""
        b, heads, n, d = array.shape
        return array.transpose(0, 2, 1, 3).reshape(b, n, heads * d)

    def bind(self, query, key, value):
        shape = self.shape
        binding = self.session.io_binding()
        feeds = {"query": self.rows(query)}
        if shape.H != shape.HKV:
            lengths = shape.lengths if shape.shortest else np.full(shape.B, shape.NK, np.int32)
            # The new rows are the last of each length; the operator puts them there again.
            at = lengths[:, None] - shape.NQ + np.arange(shape.NQ)
            new = [np.take_along_axis(a, at[:, None, :, None], 2) for a in (key, value)]
            feeds |= {"key": self.rows(new[0]), "value": self.rows(new[1]),
                      "last": (lengths - 1).astype(np.int32), "total": np.array(shape.NK, np.int32)}
            for name, array in (("key", key), ("value", value)):
                cache = self.value(array)
                binding.bind_ortvalue_input(f"past_{name}", cache)
                binding.bind_ortvalue_output(f"present_{name}", cache)
        else:
            feeds |= {"key": self.rows(key), "value": self.rows(value)}
            if shape.shortest:
                feeds["lengths"] = shape.lengths
            elif shape.mask is not None and not shape.causal:
                feeds["bias"] = np.where(shape.mask, 0, np.finfo(np.float32).min).astype(np.float32)
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, self.value(array))
        # Only where it lies is left to the runtime.
        binding.bind_output("output", "cpu")
        return binding

    def run(self, copy):
        self.session.run_with_iobinding(self.bindings[copy])

    def result(self, copy):
        self.run(copy)
        shape = self.shape
        output = next(value.numpy() for value in self.bindings[copy].get_outputs()
                      if value.shape() == [shape.B, shape.NQ, shape.H * shape.D])
        output = output.reshape(shape.B, shape.NQ, shape.H, shape.D).transpose(0, 2, 1, 3)
        return output.astype(np.float32)


class OnnxLayer:
    """ONNX Runtime's Attention, which projects its input, and the output map behind it. Weights are
    constants, so that they are packed beforehand."""

    def __init__(self, shape, inputs, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.runs = []
        for values, weights, biases in inputs:
            session = onnxruntime.InferenceSession(
                self.model(shape, weights, biases), options, providers=["CPUExecutionProvider"])
            binding = session.io_binding()
            binding.bind_ortvalue_input("input", onnxruntime.OrtValue.ortvalue_from_numpy(values))
            binding.bind_output("output", "cpu")
            self.runs.append((session, binding))

    @staticmethod
    def model(shape, weights, biases):
        from onnx import TensorProto, helper, numpy_helper

        dims = [shape.B, shape.N, shape.width]
        constants = {"w": np.concatenate(weights[:3]).T, "b": biases[:3].reshape(-1),
                     "w_out": weights[3].T, "b_out": biases[3]}
        graph = helper.make_graph(
            [helper.make_node("Attention", ["input", "w", "b"], ["attended"],
                              domain="com.microsoft", num_heads=shape.H),
             helper.make_node("MatMul", ["attended", "w_out"], ["mapped"]),
             helper.make_node("Add", ["mapped", "b_out"], ["output"])],
            "layer",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, dims)],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, dims)],
            [numpy_helper.from_array(np.ascontiguousarray(array), name)
             for name, array in constants.items()])
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 21),
                                  helper.make_opsetid("com.microsoft", 1)],
            ir_version=10).SerializeToString()

    def run(self, copy):
        session, binding = self.runs[copy]
        session.run_with_iobinding(binding)

    def result(self, copy):
        self.run(copy)
        return self.runs[copy][1].get_outputs()[0].numpy()


OnnxRuntime.layer = OnnxLayer


class OnnxAttention(OnnxRuntime):
    """The standard's Attention of opset 23."""

    name = "ONNX Runtime, Attention-23"
    layer = None

    def model(self, shape):
        from onnx import TensorProto, helper

        kind = TensorProto.FLOAT16 if shape.dtype == "float16" else TensorProto.FLOAT
        names = ["query", "key", "value"]
        tensors = [("query", kind, [shape.B, shape.H, shape.NQ, shape.D]),
                   ("key", kind, [shape.B, shape.HKV, shape.NK, shape.D]),
                   ("value", kind, [shape.B, shape.HKV, shape.NK, shape.D])]
        if shape.mask is not None and not shape.causal:
            names.append("mask")
            tensors.append(("mask", TensorProto.BOOL, list(self.full_mask(shape).shape)))
        node = helper.make_node("Attention", names, ["output"], is_causal=int(shape.causal))
        return self.save(node, [("", 23)], tensors,
                         [("output", kind, [shape.B, shape.H, shape.NQ, shape.D])])

    @staticmethod
    def full_mask(shape):
        """The operator broadcasts neither queries nor keys."""
        mask = shape.mask
        return np.broadcast_to(mask, (*mask.shape[:2], shape.NQ, shape.NK))

    def bind(self, query, key, value):
        shape = self.shape
        binding = self.session.io_binding()
        feeds = {"query": query, "key": key, "value": value}
        if shape.mask is not None and not shape.causal:
            feeds["mask"] = self.full_mask(shape)
        for name, array in feeds.items():
            binding.bind_ortvalue_input(name, self.value(array))
        binding.bind_output("output", "cpu")
        return binding

    def result(self, copy):
        self.run(copy)
        return self.bindings[copy].get_outputs()[0].numpy().astype(np.float32)


class OpenVino:
    name = "OpenVINO"

    def __init__(self, shape, inputs, threads):
        import openvino
        from openvino import opset13 as ops

        self.shape = shape
        kind = openvino.Type.f16 if shape.dtype == "float16" else openvino.Type.f32
        arrays = [
            tuple(np.ascontiguousarray(a) for a in (grouped_as_rows(shape, query), key, value))
            for query, key, value in inputs
        ]
        query, key, value = (ops.parameter(a.shape, kind) for a in arrays[0])
        wide_key, wide_value = key, value
        if arrays[0][0].shape[1] != shape.HKV:
            # The pattern by which models spell grouped heads.
            group = shape.H // shape.HKV
            wide = np.array([shape.B, shape.HKV, group, shape.NK, shape.D])
            flat = np.array([shape.B, shape.H, shape.NK, shape.D])
            wide_key, wide_value = (
                ops.reshape(ops.broadcast(ops.unsqueeze(x, np.array(2)), wide), flat, False)
                for x in (key, value))
        mask = [ops.constant(shape.mask)] if shape.mask is not None and not shape.causal else []
        attention = ops.scaled_dot_product_attention(query, wide_key, wide_value, *mask,
                                                     causal=shape.causal)
        model = openvino.Model([attention], [query, key, value])
        compiled = openvino.Core().compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f16" if shape.dtype == "float16" else "f32"})
        self.requests = []
        for copy in arrays:
            request = compiled.create_infer_request()
            for index, array in enumerate(copy):
                request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))
            self.requests.append(request)
        self.arrays = arrays

    @staticmethod
    def version():
        import openvino

        return openvino.__version__.split("-")[0]

    def run(self, copy):
        self.requests[copy].infer(share_outputs=True)

    def result(self, copy):
        self.run(copy)
        shape = self.shape
        output = self.requests[copy].get_output_tensor().data
        return output.reshape(shape.B, shape.H, shape.NQ, shape.D).astype(np.float32)


class Jax:
    name = "JAX"

    def __init__(self, shape, inputs, threads):
        import jax

        # (B, N, heads, D); XLA takes as many threads as the process may use cores.
        self.inputs = [tuple(jax.device_put(np.ascontiguousarray(a.transpose(0, 2, 1, 3)))
                             for a in copy) for copy in inputs]
        options = {}
        if shape.causal:
            options["is_causal"] = True
        elif shape.shortest:
            options["key_value_seq_lengths"] = shape.lengths
        elif shape.mask is not None:
            options["mask"] = shape.mask
        self.function = jax.jit(
            lambda query, key, value: jax.nn.dot_product_attention(query, key, value, **options))

    @staticmethod
    def version():
        import jax

        return jax.__version__

    def run(self, copy):
        return self.function(*self.inputs[copy]).block_until_ready()

    def result(self, copy):
        return np.asarray(self.run(copy)).transpose(0, 2, 1, 3).astype(np.float32)


PEERS = [OnnxRuntime, OnnxAttention, OpenVino, Torch, Jax]
