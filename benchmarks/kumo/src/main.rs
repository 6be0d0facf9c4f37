//! Push the first `count` lines of a file to kumo's queue in memory: `kumo-push FILE COUNT`. Print, as JSON, the pushes
//! a second by the clock, and how many were new. kumo's defaults: a Bloom filter for a million URLs.

use std::{env, fs, time::Instant};

use kumo::frontier::{Frontier, MemoryFrontier};

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let count: usize = arguments[2].parse().expect("COUNT is a number");
    let text = fs::read_to_string(&arguments[1]).expect("FILE can be read");
    let urls: Vec<String> = text.lines().take(count).map(String::from).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let frontier = MemoryFrontier::default();
        let pushes = urls.len();
        let mut admitted = 0;
        let start = Instant::now();
        for url in urls {
            admitted += usize::from(frontier.push(url, 0).await);
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{{\"per_second\": {}, \"admitted\": {admitted}}}", pushes as f64 / seconds);
    });
}
