// Patterns: each looks at one node, as the last of several that compute together what one operator
// or layer computes, and puts that in their place. It says whether it did. What nothing reads then
// goes (Graph::remove_dead). Patterns keep what the model computes, up to rounding.
#pragma once

#include "onnx/importing/graph.hpp"

namespace crema::onnx {

using Pattern = bool (*)(Graph& graph, Node& node);

// nothings.cpp
bool drop_nothing(Graph& graph, Node& node);  // what gives its input

// activations.cpp
bool find_softplus(Graph& graph, Node& node);      // log(exp(x) + 1)
bool find_gated(Graph& graph, Node& node);         // Swish, HardSwish, Mish: x * gate(x)
bool find_hard_sigmoid(Graph& graph, Node& node);  // clip(x + 3, 0, 6) / 6
bool find_gelu(Graph& graph, Node& node);          // x * (1 + erf(x / sqrt(2))) / 2, and by tanh
bool find_clip(Graph& graph, Node& node);          // max(x, a), min(x, b)

// norms.cpp
bool find_layer_norm(Graph& graph, Node& node);
bool find_moments_norm(Graph& graph, Node& node);  // LayerNorm as Keras writes it
bool find_rms_norm(Graph& graph, Node& node);
bool find_group_norm(Graph& graph, Node& node);

// attention.cpp
bool find_attention(Graph& graph, Node& node);

// products.cpp
bool find_inner_product(Graph& graph, Node& node);   // MatMul and Gemm with weights
bool join_bias(Graph& graph, Node& node);            // a constant added to a product or convolution
bool drop_flatten(Graph& graph, Node& node);         // in front of an inner product
bool find_scaled_product(Graph& graph, Node& node);  // MatMul with Transpose or a factor
bool write_einsum(Graph& graph, Node& node);

// rows.cpp
bool drop_wrapping(Graph& graph, Node& node);  // of negative indices, in front of Gather
bool find_rows(Graph& graph, Node& node);      // Embed, and indices that are floats

// recurrent.cpp
bool find_recurrent(Graph& graph, Node& node);

// steps.cpp
bool find_steps(Graph& graph, Node& node);  // LSTM and GRU, step by step

// moves.cpp
bool join_moves(Graph& graph, Node& node);   // chains of Reshape and Transpose
bool find_repeat(Graph& graph, Node& node);  // Resize, written with Tile between moves
/// A Transpose of axes of size 1 is a Reshape, which costs nothing. It comes last, since Transposes
/// meet others.
bool flatten_transpose(Graph& graph, Node& node);

// sinking.cpp
bool sink_moves(Graph& graph, Node& node);  // Transpose and Reshape behind what does not mind

// batch.cpp
bool follow_batch(Graph& graph, Node& node);  // constants that Concat puts beside the samples

// pads.cpp
bool join_pad(Graph& graph, Node& node);  // Pad in front of convolutions and pooling

// constants.cpp: Power, Scale and Bias. They come last, since the other patterns look for the
// operators themselves.
bool find_power(Graph& graph, Node& node);
bool find_scale(Graph& graph, Node& node);
bool join_scale(Graph& graph, Node& node);

}  // namespace crema::onnx
