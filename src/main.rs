fn main() {
    println!("dolmen");
}
