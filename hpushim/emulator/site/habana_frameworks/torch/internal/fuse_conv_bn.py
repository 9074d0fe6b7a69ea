"""Folding batch norm into the convolution before it, for inference."""

from __future__ import annotations

import itertools

import torch
from torch.nn.utils import fusion


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Weight and bias of one convolution that does the work of both."""
    return fusion.fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv, bn):
    """One convolution in place of ``conv`` and ``bn``, both in evaluation mode."""
    return fusion.fuse_conv_bn_eval(conv, bn)


def fuse(model: torch.nn.Module) -> torch.nn.Module:
    """``model`` with each Conv2d directly followed by a BatchNorm2d in the same container fused.

    Only where the order is certain (``nn.Sequential``) and the model is in evaluation mode; otherwise unchanged.
    """
    if model.training:
        return model
    for parent in model.modules():
        if not isinstance(parent, torch.nn.Sequential):
            continue
        names = list(parent._modules)
        for first, second in itertools.pairwise(names):
            conv, norm = parent._modules[first], parent._modules[second]
            if isinstance(conv, torch.nn.Conv2d) and isinstance(norm, torch.nn.BatchNorm2d):
                parent._modules[first] = fuse_conv_bn_eval(conv, norm)
                parent._modules[second] = torch.nn.Identity()
    return model
