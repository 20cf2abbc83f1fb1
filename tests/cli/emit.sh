# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# The source is complete CUDA, the same each time, and needs no header.
op=swiglu_forward_and_per_channel_cast_and_transpose
kiln emit $op hidden=7168 --arch sm_90a >one.cu && echo "emitted"
kiln emit $op hidden=7168 --arch sm_90a >two.cu && cmp one.cu two.cu && echo "the same again"
kiln emit $op hidden=7168 >three.cu && cmp one.cu three.cu && echo "sm_90a without a GPU"
grep -c '#include' one.cu
grep -c "$SOURCE" one.cu
grep -q '__global__' one.cu && echo "has kernels"
kiln emit $op hidden=7168 --arch sm_100a >four.cu && ! cmp -s one.cu four.cu && echo "its own for sm_100a"
fails 1 hidden kiln emit $op
fails 1 hiden kiln emit $op hiden=7168
fails 1 hidden kiln emit $op hidden=0
fails 1 hidden kiln emit $op hidden=x
fails 1 'num_per_tokens is 48; allowed' kiln emit $op hidden=7168 num_per_tokens=48
fails 1 swiglu kiln emit swiglu hidden=7168
fails 1 'num_per_channels is 48; allowed' \
  kiln emit per_token_cast hidden=7168 in_dtype=bf16 fmt=e2m1 num_per_channels=48
