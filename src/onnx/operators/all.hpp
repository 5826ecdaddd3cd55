// The functions that add the operators to the table, one for each file of this folder.
#pragma once

#include "onnx/operators/operator.hpp"

namespace crema::onnx {

void add_function_operators(OperatorTable& table);
void add_arithmetic_operators(OperatorTable& table);
void add_type_operators(OperatorTable& table);
void add_constant_operators(OperatorTable& table);
void add_shape_operators(OperatorTable& table);
void add_slicing_operators(OperatorTable& table);
void add_gathering_operators(OperatorTable& table);
void add_scattering_operators(OperatorTable& table);
void add_choosing_operators(OperatorTable& table);
void add_scan_operators(OperatorTable& table);

}  // namespace crema::onnx
