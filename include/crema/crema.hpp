// All of Crema that an embedding program needs.
#pragma once

#include "crema/blob.hpp"
#include "crema/context.hpp"
#include "crema/error.hpp"
#include "crema/layer.hpp"
#include "crema/memory_data.hpp"
#include "crema/net.hpp"
#include "crema/parameter_arena.hpp"
#include "crema/plugin.hpp"
#include "crema/registry.hpp"
#include "crema/shape.hpp"
#include "crema/solver.hpp"
#include "crema/tensor.hpp"
