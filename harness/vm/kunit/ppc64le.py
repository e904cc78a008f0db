# SPDX-License-Identifier: GPL-2.0
"""Record for kunit.py: little-endian PowerPC on QEMU's pseries machine."""

from ..qemu_config import QemuArchParams

# The mitigations that these capabilities announce are for hardware, and TCG
# has none of them.
MACHINE = "pseries,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off"

QEMU_ARCH = QemuArchParams(
    linux_arch="powerpc",
    kconfig="""
CONFIG_PPC64=y
CONFIG_CPU_LITTLE_ENDIAN=y
CONFIG_PPC_PSERIES=y
CONFIG_HVC_CONSOLE=y""",
    qemu_arch="tcg-ppc64",
    kernel_path="vmlinux",
    kernel_command_line="console=hvc0 printk.time=1 loglevel=7 panic=-1 oops=panic",
    extra_qemu_params=["-accel", "tcg", "-smp", "2", "-M", MACHINE,
                       "-cpu", "power9", "-vga", "none"])
