mod policy;
mod run;
mod trace;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let shapes: Vec<&str> = args[1].split(',').collect();
    let names: Vec<&str> = args[2].split(',').collect();
    let get = |n: &str, d: u64| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
    let (mb, n, ops, seed) = (get("MB", 64), get("N", 1_000_000), get("OPS", 2_000_000), get("SEED", 7));
    print!("{:18}", "");
    for s in &shapes { print!("{s:>12}"); }
    println!();
    let traces: Vec<_> = shapes.iter().map(|s| trace::make(s, n as u32, ops as u32, seed).unwrap()).collect();
    for name in names {
        print!("{name:18}");
        for t in &traces {
            let cap = mb << 20;
            let mut p = policy::make(name, t, cap).unwrap();
            let h = run::hit_percent(t, p.as_mut(), cap);
            print!("{h:8.2}{:>4}", p.note());
            use std::io::Write; std::io::stdout().flush().unwrap();
        }
        println!();
    }
}
