// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Names that only Rust has, one chain of calls: main, a generic method, a closure in it, a method
//! of a trait, a generic function, which burns. Says "ready PID" as the others do.
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is stored after a call makes it no tail call.
static SINK: AtomicU64 = AtomicU64::new(1);

mod shop {
    use super::SINK;
    use std::sync::atomic::Ordering;

    pub trait Priced {
        fn price(&self, times: u64) -> u64;
    }

    pub struct Apple;

    impl Priced for Apple {
        #[inline(never)]
        fn price(&self, times: u64) -> u64 {
            let price = super::grind(times);
            SINK.store(price, Ordering::Relaxed);
            price
        }
    }

    #[inline(never)]
    pub fn each<F: Fn(u64) -> u64>(times: u64, call: F) -> u64 {
        let sum = call(times);
        SINK.store(sum, Ordering::Relaxed);
        sum
    }

    pub struct Cart<T> {
        pub items: Vec<T>,
    }

    impl<T: Priced> Cart<T> {
        #[inline(never)]
        pub fn total(&self, times: u64) -> u64 {
            let sum = each(times, |n| {
                let price = self.items[0].price(n);
                SINK.store(price, Ordering::Relaxed);
                price
            });
            SINK.store(sum, Ordering::Relaxed);
            sum
        }
    }
}

#[inline(never)]
fn grind<T: Into<u64>>(times: T) -> u64 {
    let mut x = SINK.load(Ordering::Relaxed) | 1;
    for _ in 0..times.into() {
        x = x.wrapping_mul(0x2545f491) ^ (x >> 7);
    }
    x
}

fn main() {
    let cart = shop::Cart { items: vec![shop::Apple] };
    println!("ready {}", std::process::id());
    std::io::stdout().flush().unwrap();
    loop {
        let total = cart.total(200_000);
        SINK.store(total, Ordering::Relaxed);
    }
}
