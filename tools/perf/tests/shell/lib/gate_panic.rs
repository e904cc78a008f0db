// SPDX-License-Identifier: GPL-2.0
//
// A function that panics in every other of ten calls, and one in a module, for gate_hazard.sh.
use std::panic;

#[no_mangle]
#[inline(never)]
pub extern "C-unwind" fn risky(n: u32) -> u32 {
    if std::hint::black_box(n) % 2 == 0 {
        panic!("even");
    }
    n + 1
}

mod inner {
    #[inline(never)]
    pub fn parse(n: u32) -> u32 {
        std::hint::black_box(n) + 1
    }
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let caught = (0..10)
        .filter(|n| panic::catch_unwind(|| risky(*n)).is_err())
        .count();
    let parsed: u32 = (0..10).map(inner::parse).sum();
    println!("end {} {}", caught, parsed);
}
