"""The fast CPU form of the functions in `reference`: plain C. Takes tensors and a config; `ops` decides when it runs.

from elmo.bilm.kernels import kernel_info
kernel_info()  # KernelInfo(name="avx512", reason="the fastest this processor has")
"""

from elmo.bilm.kernels.binding import KernelInfo, kernel_info

__all__ = ["KernelInfo", "kernel_info"]
