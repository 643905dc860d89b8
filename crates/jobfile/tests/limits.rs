//! what YAML itself can do to a reader, and the bounds on size, depth, repetition and number.

mod support;

use leeway_jobfile::{Code, limits, parse};
use support::{context, errors, job, one};

fn first(text: &str) -> (Code, Option<u32>) {
    let errors = errors(text);
    (errors.as_slice()[0].code, errors.as_slice()[0].position.map(|at| at.line))
}

#[test]
fn x_06_an_alias_bomb_is_refused_before_it_unfolds() {
    let mut bomb = String::from("run: x\nenvs:\n  a: &a [x,x,x,x,x,x,x,x,x,x]\n");
    for (now, before) in "bcdefghij".chars().zip("abcdefghi".chars()) {
        bomb.push_str(&format!("  {now}: &{now} [{}]\n", vec![format!("*{before}"); 10].join(",")));
    }
    let refused = errors(&bomb);
    assert_eq!(refused.as_slice()[0].code, Code::YamlLimit, "{refused}");
    let long = format!("run: &r |\n  {}\nenvs:\n{}", "x".repeat(300_000), "  A: *r\n".repeat(1_000));
    assert!(parse(&long, &context()).is_err());
    assert!(parse("run: x\nlabels: &l\n  a: *l\n", &context()).is_err(), "a value inside itself");
    assert_eq!(first("run: *nowhere\n").0, Code::YamlSyntax);
}

#[test]
fn anchors_and_merges_within_the_limits_work() {
    let text = "run: &cmd ./train\nsetup: *cmd\nresources:\n  any_of:\n    - &base {cpus: 4, memory: 16}\n    - {<<: *base, cpus: 8}\n";
    let spec = one(text).spec;
    assert_eq!(spec.program.setup.as_deref(), Some("./train"));
    let cpus: Vec<_> = spec.resources.iter().map(|r| (r.cpus.unwrap().amount.0, r.memory.unwrap().amount)).collect();
    assert_eq!((cpus[0].0, cpus[1].0, cpus[0].1 == cpus[1].1), (4_000, 8_000, true));
}

#[test]
fn x_06_a_repeated_key_is_an_error_that_names_both_lines() {
    for (text, path, lines) in [
        ("run: a\nname: x\nrun: b\n", "run", (1, 3)),
        ("run: a\nresources:\n  cpus: 1\n  cpus: 2\n", "resources.cpus", (3, 4)),
        ("run: a\nresources:\n  accelerators: {T4: 1, T4: 2}\n", "resources.accelerators.T4", (3, 3)),
    ] {
        let errors = errors(text);
        let error = &errors.as_slice()[0];
        assert_eq!((error.code, error.path.as_str()), (Code::DuplicateField, path));
        assert_eq!(error.position.unwrap().line, lines.1, "{errors}");
        assert!(error.problem.contains(&format!("line {}", lines.0)), "{errors}");
    }
}

#[test]
fn x_06_text_that_other_yaml_readers_turn_into_something_else_stays_text() {
    let env = job(
        "envs: {A: NO, B: 1e3, C: 010, D: yes, E: 1_000, F: 12:30:00, G: .nan, H: 0x1F, I: on, J: 3.10, K: ~x, L: '5'}",
    )
    .spec
    .program
    .env;
    let all: Vec<_> = env.values().map(String::as_str).collect();
    assert_eq!(all, ["NO", "1e3", "010", "yes", "1_000", "12:30:00", ".nan", "0x1F", "on", "3.10", "~x", "5"]);
    assert_eq!(job("name: NO").spec.name.as_str(), "NO");
}

#[test]
fn x_06_deep_nesting_is_refused() {
    for text in [format!("run: {}x{}", "[".repeat(200), "]".repeat(200)), format!("run: {}", "{a: ".repeat(10_000))] {
        assert!(matches!(first(&text).0, Code::YamlLimit | Code::YamlSyntax), "{}", &text[..20]);
    }
    let block: String = (0..100).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert_eq!(first(&block).0, Code::YamlLimit);
}

#[test]
fn a_file_may_be_a_mebibyte_and_not_more() {
    let filled = |bytes: usize| {
        let text = "run: x\n#";
        format!("{text}{}", "x".repeat(bytes - text.len()))
    };
    assert!(parse(&filled(limits::MAX_FILE_BYTES), &context()).is_ok());
    let errors = errors(&filled(limits::MAX_FILE_BYTES + 1));
    assert_eq!(errors.as_slice()[0].code, Code::FileTooLarge);
    assert!(errors.to_string().contains("1048576"), "{errors}");
}

#[test]
fn a_file_without_a_job_says_so() {
    for text in ["", " \n\n", "---\n", "---\n---\n...\n", "# only a comment\n", "null", "~", "\u{feff}"] {
        assert_eq!(first(text).0, Code::FileEmpty, "{text:?}");
    }
    let spaces = "\n".repeat(limits::MAX_FILE_BYTES);
    assert_eq!(first(&spaces).0, Code::FileEmpty, "empty and as large as may be");
    assert_eq!(first(&format!("{spaces}\n")).0, Code::FileTooLarge, "empty and too large");
    for text in ["just text", "[run]", "42", "true", "- run: x"] {
        assert_eq!(first(text).0, Code::WrongType, "{text:?}");
    }
}

#[test]
fn there_is_a_limit_on_documents() {
    let documents = |count: usize| vec!["run: x\n"; count].join("---\n");
    assert_eq!(parse(&documents(limits::MAX_DOCUMENTS), &context()).unwrap().len(), limits::MAX_DOCUMENTS);
    assert_eq!(first(&documents(limits::MAX_DOCUMENTS + 1)).0, Code::YamlLimit);
}

#[test]
fn broken_yaml_is_told_with_its_line() {
    for (text, line) in [
        ("run: x\nenvs: {A: b\n", None),
        ("run: 'x\n", None),
        ("run: x\n\tname: y\n", Some(1)),
        ("run: x\nname: a: b\n", Some(2)),
        ("run: !python/object:os.system x\n", Some(1)),
        ("run: !!int x\n", None),
        ("? [a, b]\n: c\n", None),
    ] {
        let errors = errors(text);
        assert_eq!(errors.as_slice().len(), 1, "{errors}");
        assert_eq!(errors.as_slice()[0].code, Code::YamlSyntax, "{errors}");
        let position = errors.as_slice()[0].position;
        assert!(position.is_some(), "{errors}");
        assert!(line.is_none() || position.map(|at| at.line) == line, "{errors}");
    }
}

#[test]
fn windows_line_ends_and_long_comments_are_nothing_special() {
    let text = format!("# {}\r\nrun: |\r\n  a\r\n  b\r\nresources:\r\n{}  cpus: 4\r\n", "c", "  # off\r\n".repeat(200));
    assert_eq!(&*one(&text).spec.program.run, "a\nb\n");
}

#[test]
fn a_file_full_of_mistakes_is_answered_within_bounds() {
    let text: String = (0..20_000).map(|index| format!("field{index}: 1\n")).collect();
    let errors = errors(&text);
    assert_eq!(errors.as_slice().len(), 100);
    assert_eq!(errors.omitted(), 20_001 - 100, "each unknown field, and no run");
    assert!(errors.to_string().len() < 100_000);
}

#[test]
fn x_03_control_characters_do_not_reach_the_terminal() {
    let found = errors("run: x\n\"\\e[31mname\": 1\nspot_policy: \"\\e[2J\"\ndepends_on: [\"\\e]0;x\"]\n").to_string();
    assert!(!found.contains('\u{1b}') && found.contains("\\u{1b}"), "{found}");
}
