"""Attention."""

import torch
from torch.nn.functional import scaled_dot_product_attention


def draw(*shape):
    return torch.rand(*shape) * 4 - 2


def attend(q, k, v, heads, **settings):
    def split(x):
        return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)

    y = scaled_dot_product_attention(split(q), split(k), split(v), **settings)
    return y.transpose(1, 2).reshape(q.shape[0], q.shape[1], -1)


def cases(write):
    def case(name, settings, q, k, v, heads, mask=None, lengths=None, **others):
        inputs = {"q": draw(*q), "k": draw(*k), "v": draw(*v)}
        kept = None
        if mask is not None:
            inputs["mask"] = mask.float()
            kept = ~mask.bool()[:, None, None, :]
        if lengths is not None:
            inputs["lengths"] = lengths.float()
            kept = (torch.arange(k[1]) < lengths[:, None])[:, None, None, :]
        # PyTorch takes either a mask or is_causal.
        if kept is not None and others.pop("is_causal", False):
            kept = kept & torch.ones(q[1], k[1]).tril().bool()
        if kept is not None:
            others["attn_mask"] = kept
        write(name, f'type: "Attention" attention_param {{ {settings} }}', inputs,
              lambda i, _: {"y": attend(i["q"], i["k"], i["v"], heads, **others)},
              fixed=("mask", "lengths"))

    case("attention_one_head", "", (2, 5, 4), (2, 5, 4), (2, 5, 4), 1)
    case("attention_heads", "num_heads: 3 scale: 0.7", (2, 6, 15), (2, 6, 15), (2, 6, 15), 3,
         scale=0.7)
    case("attention_cross", "num_heads: 2", (2, 3, 8), (2, 7, 8), (2, 7, 12), 2)
    case("attention_causal", "num_heads: 2 causal: true", (2, 9, 6), (2, 9, 6), (2, 9, 6), 2,
         is_causal=True)
    case("attention_causal_cross", "num_heads: 2 causal: true", (1, 4, 6), (1, 9, 6), (1, 9, 6), 2,
         is_causal=True)
    case("attention_blocks", "num_heads: 1 causal: true", (1, 150, 3), (1, 150, 3), (1, 150, 3), 1,
         is_causal=True)
    case("attention_mask", "num_heads: 2", (2, 4, 6), (2, 5, 6), (2, 5, 6), 2,
         mask=torch.tensor([[0, 1, 0, 0, 1], [1, 0, 0, 1, 0]]))
    case("attention_lengths", "num_heads: 2 causal: true", (3, 4, 6), (3, 4, 6), (3, 4, 6), 2,
         lengths=torch.tensor([4, 1, 3]), is_causal=True)
