fn main() { println!("dolmen"); }
