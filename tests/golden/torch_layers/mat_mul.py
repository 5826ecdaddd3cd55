"""MatMul."""

import torch


def draw(*shape):
    return torch.rand(*shape) * 2 - 1


def cases(write):
    def case(name, settings, a, b, function):
        write(name, f'type: "MatMul" {settings}', {"a": draw(*a), "b": draw(*b)},
              lambda i, _: {"y": function(i["a"], i["b"])})

    case("mat_mul", "", (3, 4), (4, 5), lambda a, b: a @ b)
    case("mat_mul_batch", "matmul_param { transpose_b: true scale: 0.5 }", (2, 3, 4, 6), (2, 3, 5, 6),
         lambda a, b: 0.5 * a @ b.transpose(-1, -2))
    case("mat_mul_transpose_a", "matmul_param { transpose_a: true }", (2, 6, 4), (2, 6, 5),
         lambda a, b: a.transpose(-1, -2) @ b)
    case("mat_mul_transposes", "matmul_param { transpose_a: true transpose_b: true }", (2, 6, 4),
         (5, 6), lambda a, b: a.transpose(-1, -2) @ b.transpose(-1, -2))
    case("mat_mul_shared", "", (2, 3, 4), (4, 5), lambda a, b: a @ b)
