use super::needs_python;

#[test]
fn every_comparison_without_an_interpreter_needs_python() {
    let needs = |line: &str| {
        let arguments: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        needs_python(&arguments)
    };
    for line in ["", "--all", "--comparison", "--comparison --model=a.gguf", "--dialect json --comparison"] {
        assert!(needs(line), "{line}");
    }
    for line in
        ["--help", "-h", "--model a.gguf", "--dialect=json", "--comparison --python=python3", "--development"]
    {
        assert!(!needs(line), "{line}");
    }
}
