// The operators of the files that compute: sums, windows, products, sequences. operator.cpp adds
// them to the table.
#pragma once

namespace crema::onnx {

class OperatorTable;

void add_attention_operators(OperatorTable& table);
void add_convolution_operators(OperatorTable& table);
void add_einsum_operators(OperatorTable& table);
void add_loss_operators(OperatorTable& table);
void add_normalization_operators(OperatorTable& table);
void add_pooling_operators(OperatorTable& table);
void add_product_operators(OperatorTable& table);
void add_quantization_operators(OperatorTable& table);
void add_recurrent_operators(OperatorTable& table);
void add_reduction_operators(OperatorTable& table);
void add_region_operators(OperatorTable& table);
void add_resize_operators(OperatorTable& table);
void add_sampling_operators(OperatorTable& table);
void add_selection_operators(OperatorTable& table);
void add_signal_operators(OperatorTable& table);

}  // namespace crema::onnx
