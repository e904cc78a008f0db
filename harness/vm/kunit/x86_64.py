# SPDX-License-Identifier: GPL-2.0
"""Record for kunit.py: x86_64 on the processor that the other guests have.

The kernel's own record leaves QEMU's default processor and needs the firmware
qboot, which not every package of QEMU has.
"""

from ..qemu_config import QemuArchParams

QEMU_ARCH = QemuArchParams(
    linux_arch="x86_64",
    kconfig="""
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y""",
    qemu_arch="tcg-x86_64",
    kernel_path="arch/x86/boot/bzImage",
    kernel_command_line="console=ttyS0 printk.time=1 loglevel=7 panic=-1 oops=panic",
    extra_qemu_params=["-accel", "tcg,thread=single", "-smp", "2", "-cpu", "max"])
