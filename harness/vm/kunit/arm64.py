# SPDX-License-Identifier: GPL-2.0
"""Record for kunit.py: arm64 on the machine that the other guests have."""

from ..qemu_config import QemuArchParams

QEMU_ARCH = QemuArchParams(
    linux_arch="arm64",
    kconfig="""
CONFIG_SERIAL_AMBA_PL011=y
CONFIG_SERIAL_AMBA_PL011_CONSOLE=y""",
    qemu_arch="tcg-aarch64",
    kernel_path="arch/arm64/boot/Image",
    kernel_command_line="console=ttyAMA0 printk.time=1 loglevel=7 panic=-1 oops=panic irqchip.gicv3_pseudo_nmi=1",
    extra_qemu_params=["-accel", "tcg,thread=single", "-smp", "2", "-M", "virt,gic-version=3",
                       "-cpu", "neoverse-n1"])
