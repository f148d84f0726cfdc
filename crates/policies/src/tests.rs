//! Expressions and their values, and the decisions of policies.

use serde_json::{Value as Json, json};

use super::*;

fn object() -> Json {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "labels": {"team/name": "a", "tier": "gold"},
            "finalizers": ["x", "y"], "creationTimestamp": "2026-11-27T03:04:05Z"},
        "spec": {"replicas": 3, "weight": 1.5, "empty": {}, "none": null, "image": "registry.example.com/web:1.2",
            "memory": "1Gi", "ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}],
            "numbers": [3, 1, 2], "words": ["b", "a", "b"]},
    })
}

/// Returns the value as JSON, or the error.
pub(super) fn evaluated(text: &str) -> Result<Json, String> {
    let expression = Expression::parse(text, &["double".to_owned()])?;
    let variables =
        [Variable { name: "double".to_owned(), expression: Expression::parse("object.spec.replicas * 2", &[]) }];
    let (object, answers) = (object(), AccessAnswers::new());
    let request = json!({"operation": "CREATE", "userInfo": {"username": "jane", "groups": ["dev", "ops"]}});
    let params = json!({"data": {"most": "5"}});
    let inputs = Inputs {
        object: Value::of(&object),
        old_object: Value::Null,
        request: Value::of(&request),
        params: Value::of(&params),
        namespace: Value::Null,
        authorizer: None,
        answers: &answers,
    };
    let mut evaluation = Evaluation::new(inputs, &variables, POLICY_COST_MAX);
    let value = evaluation.value(&expression).map_err(|fault| fault.to_string())?;
    value.to_json().map_err(|fault| fault.to_string())
}

#[track_caller]
fn all_true(expressions: &[&str]) {
    for expression in expressions {
        assert_eq!(evaluated(expression), Ok(json!(true)), "{expression}");
    }
}

#[test]
fn ad20_objects_are_read_as_kubernetes_shows_them() {
    all_true(&[
        "object.metadata.namespace == 'shop' && object.spec.replicas == 3 && object.spec.weight < 2",
        "oldObject == null && namespaceObject == null && request.operation in ['CREATE', 'UPDATE']",
        "has(object.metadata.labels) && !has(object.metadata.annotations) && has(object.spec.none)",
        "object.metadata.labels['team/name'] == 'a' && 'tier' in object.metadata.labels",
        "object.spec.ports.all(p, p.port > 0) && object.spec.ports.exists(p, p.name == 'http')",
        "object.spec.ports.exists_one(p, p.port == 80) && object.spec.ports.map(p, p.port) == [80, 9090]",
        "object.spec.ports.filter(p, p.port > 100).size() == 1 && object.spec.ports[0].name == 'http'",
        "object.metadata.labels.all(k, k.startsWith('t')) && object.spec.empty == {}",
        "int(params.data.most) == 5 && variables.double == 6 && variables.double + variables.double == 12",
        "object.spec.replicas == 3.0 && 3u == 3 && 1 < 1.5 && type(1) == int && type('a') != int",
        "object.spec.missing.orValue(1) == 1 || true",
        "[1, 0].exists(x, object.spec.nothing == x || x == 0) && [1, 2].exists(x, x == 2 || 1 / (x - 1) > 5)",
        "'a' + 'b' == 'ab' && [1] + [2] == [1, 2] && b'a' + b'b' == b'ab'",
        "-7 / 2 == -3 && -7 % 2 == -1 && 7.0 / 2.0 == 3.5 && !(1 > 2) && (true ? 1 : 2) == 1",
        "dyn(object.spec).replicas == 3 && size('héllo') == 5 && double('1.5') == 1.5 && uint(3) == 3u",
        "string(1.0) == '1' && string(true) == 'true' && string(1e300) == '1e+300' && int('-7') == -7",
    ]);
}

#[test]
fn ad20_the_libraries_of_kubernetes_are_there() {
    all_true(&[
        // Strings.
        "'tacocat'.charAt(3) == 'o' && 'hello'.indexOf('l') == 2 && 'hello'.indexOf('l', 3) == 3",
        "'hello'.lastIndexOf('l') == 3 && ['a', 'b'].join('-') == 'a-b' && 'Ab'.lowerAscii() == 'ab'",
        "'a b c'.replace(' ', '', 1) == 'ab c' && 'a,b'.split(',') == ['a', 'b'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'hello'.substring(1, 3) == 'el' && ' x '.trim() == 'x' && 'x'.upperAscii() == 'X'",
        "'%s has %d of %.2f: %s'.format(['web', 3, 1.5, ['a', 1]]) == 'web has 3 of 1.50: [\"a\", 1]'",
        "'%x %X %o %b %e'.format([255, 'a', 8, 5, 1500.0]) == 'ff 61 10 101 1.500000\u{202f}×\u{202f}10⁰³'",
        "strings.quote('a\\n') == '\"a\\\\n\"' && jsonpatch.escapeKey('k8s.io/a~b') == 'k8s.io~1a~0b'",
        // Regular expressions.
        "'abc 123'.find('[0-9]+') == '123' && '1 2 3'.findAll('[0-9]', 2) == ['1', '2'] && 'a'.matches('^a$')",
        // Lists and sets.
        "[1, 2, 3].isSorted() && [3, 1].max() == 3 && [3, 1].min() == 1 && [1, 2].sum() == 3 && ['a'].indexOf('b') == -1",
        "object.spec.numbers.sort() == [1, 2, 3] && object.spec.words.distinct() == ['b', 'a'] && [1, 2].reverse() == [2, 1]",
        "object.spec.ports.sortBy(p, -p.port)[0].name == 'metrics' && lists.range(3) == [0, 1, 2]",
        "[1, 2, 3].slice(1, 3) == [2, 3] && [[1], [2, [3]]].flatten() == [1, 2, [3]]",
        "sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])",
        // Quantities.
        "quantity(object.spec.memory).isLessThan(quantity('2Gi')) && quantity('500m').add(quantity('1')) == quantity('1500m')",
        "quantity('1k').asInteger() == 1000 && isQuantity('1.5Gi') && !isQuantity('x') && sign(quantity('-1')) == -1",
        "quantity('2').sub(1).compareTo(quantity('1')) == 0 && quantity('100m').asApproximateFloat() == 0.1",
        // URLs, IPs and CIDRs.
        "url('https://[::1]:80/a b?x=1&x=2').getHostname() == '::1' && url('https://a:80/').getPort() == '80'",
        "url('https://a/p?x=1&x=2').getQuery() == {'x': ['1', '2']} && !isURL('a/b') && url('/p q').getEscapedPath() == '/p%20q'",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('::ffff:1.2.3.4') && ip.isCanonical('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::/0').prefixLength() == 0 && string(ip('::1')) == '::1'",
        // Formats and versions.
        "!format.dns1123Label().validate('a-b').hasValue() && format.dns1123Label().validate('A').hasValue()",
        "format.named('labelValue').hasValue() && !format.named('x').hasValue()",
        "format.qualifiedName().validate('example.com/Name') == optional.none() && format.uuid().validate('x').value().size() == 1",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('1.0.0-rc.1') && !isSemver('v1.0') && isSemver('v1.0', true)",
        "semver('1.0.0-rc.2').compareTo(semver('1.0.0')) == -1 && semver('3.2.1').major() == 3",
        // Optional values.
        "object.?spec.?nothing.orValue('x') == 'x' && object.?spec.replicas.hasValue()",
        "object.?spec.replicas.optMap(r, r + 1).orValue(0) == 4 && {'a': 1}[?'b'].or(optional.of(2)).value() == 2",
        "[?optional.none(), 1] == [1] && {?'a': optional.of(1)} == {'a': 1} && !optional.ofNonZeroValue('').hasValue()",
        // Two variables.
        "object.metadata.labels.all(k, v, k != '' && v != '') && object.spec.numbers.exists(i, n, i == 0 && n == 3)",
        "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 10) == {'b': 20} && [5, 6].transformList(i, v, i + v) == [5, 7]",
        "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'} && {'a': 1}.existsOne(k, v, v == 1)",
        // Times.
        "timestamp(object.metadata.creationTimestamp).getFullYear() == 2026 && duration('1h30m').getMinutes() == 90",
        "timestamp('2026-11-27T03:04:05Z') + duration('1s') == timestamp('2026-11-27T03:04:06Z')",
        "timestamp('2026-11-27T03:04:05Z').getHours('+02:00') == 5 && timestamp('2026-11-27T00:00:00Z').getDayOfWeek() == 5",
        "string(duration('90m')) == '5400s' && string(timestamp('2026-11-27T03:04:05Z')) == '2026-11-27T03:04:05Z'",
    ]);
}

#[test]
fn ad20_errors_have_the_words_of_cel_go() {
    for (text, why) in [
        ("object.spec.missing == 1", "no such key: missing"),
        ("object.spec.missing.deeper == 1", "no such key: missing"),
        ("oldObject.spec.replicas == 1", "no such key: spec"),
        ("object.spec.ports[7].name", "index out of bounds: 7"),
        ("object.spec.replicas < 'a'", "no such overload"),
        ("object.spec.replicas && true", "no such overload"),
        ("object.metadata.name.size() / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("[].max()", "max called on empty list"),
        ("optional.none().value()", "optional.none() dereference"),
        ("quantity('1.5').asInteger()", "cannot convert value to integer"),
        ("authorizer.group('').resource('pods').check('get').allowed()", "no such attribute(s): authorizer"),
    ] {
        assert_eq!(evaluated(text), Err(why.to_owned()), "{text}");
    }
}

#[test]
fn ad21_what_cannot_be_read_is_said() {
    for text in [
        "request.operation == 'CREATE",
        "(true",
        "",
        "a",
        "nothing(1)",
        "image('a')",
        "variables.other == 1",
        &"!".repeat(4_000),
        &"(".repeat(4_000),
        &format!("request{}", ".a".repeat(300)),
        &format!("{}true{}", "[1].all(x, ".repeat(9), ")".repeat(9)),
        &"x".repeat(40_000),
    ] {
        assert!(evaluated(text).is_err(), "{text}");
    }
}

#[test]
fn ad21_an_expression_that_costs_too_much_ends() {
    let numbers = "lists.range(300)";
    let nested = format!("{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, {numbers}.all(d, a + b + c + d >= 0))))");
    let doubled = format!(
        "[{}].map(x, x + x).map(x, x + x + x + x).map(x, x + x + x + x)",
        ["'aaaaaaaaaaaaaaaaaaaa'"; 20].join(",")
    );
    let started = std::time::Instant::now();
    assert_eq!(evaluated(&nested), Err("operation cancelled: actual cost limit exceeded".to_owned()));
    assert!(evaluated(&doubled).is_ok());
    assert_eq!(evaluated("lists.range(2000000)"), Err("operation cancelled: actual cost limit exceeded".to_owned()));
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "it took {:?}", started.elapsed());
}

pub(super) fn policy(spec: Json) -> Policy {
    Policy::read("p", PolicyKind::Validating, &spec).unwrap()
}

fn judged(policy: &Policy, answers: &AccessAnswers) -> Judged<Verdict> {
    let (object, request) = (object(), json!({"name": "web"}));
    let check = AccessCheck::of_request("apps.karmada.io", "workloadrebalancers", "", "", "web");
    let inputs = Inputs {
        object: Value::of(&object),
        old_object: Value::Null,
        request: Value::of(&request),
        params: Value::Null,
        namespace: Value::Null,
        authorizer: Some([AccessCheck::begin(), check].map(|check| Value::Authorizer(std::sync::Arc::new(check)))),
        answers,
    };
    policy.validate(&inputs)
}

pub(super) fn judgements(spec: Json) -> Vec<Judgement> {
    let verdict = judged(&policy(spec), &AccessAnswers::new()).unwrap();
    verdict.decisions.into_iter().map(|decision| decision.judgement).collect()
}

fn denied(message: &str, reason: &str) -> Judgement {
    Judgement::Denied { message: message.to_owned(), reason: reason.to_owned() }
}

#[test]
fn ad22_a_denial_has_the_message_of_its_validation() {
    let expected = [
        Judgement::Admitted,
        denied("failed expression: object.spec.replicas > 5", ""),
        denied("too few", "Forbidden"),
        denied("web has 3", ""),
        denied("too few", ""),
        denied("too few", ""),
    ];
    let given = judgements(json!({"validations": [
        {"expression": "object.spec.replicas > 1"},
        {"expression": " object.spec.replicas > 5 "},
        {"expression": "object.spec.replicas > 5", "message": " too few", "reason": "Forbidden"},
        {"expression": "object.spec.replicas > 5", "message": "no", "messageExpression": "object.metadata.name + ' has ' + string(object.spec.replicas)"},
        {"expression": "object.spec.replicas > 5", "message": "too few", "messageExpression": "'two\\nlines'"},
        {"expression": "object.spec.replicas > 5", "message": "too few", "messageExpression": "object.spec.nothing"},
    ]}));
    assert_eq!(given, expected);
}

#[test]
fn ad22_conditions_and_errors_are_judged_as_upstream() {
    let never = json!({"expression": "false"});
    let when = |conditions: Json, policy: &str| {
        judgements(json!({"failurePolicy": policy, "matchConditions": conditions, "validations": [never]}))
    };
    let condition = |text: &str| json!({"name": text, "expression": text});
    assert_eq!(when(json!([condition("true")]), "Fail"), [denied("failed expression: false", "")]);
    assert!(when(json!([condition("object.missing == 1"), condition("false")]), "Fail").is_empty(), "one is false");
    assert!(when(json!([condition("object.missing == 1")]), "Ignore").is_empty());
    let failed = when(json!([condition("object.missing == 1")]), "Fail");
    let message = "expression 'object.missing == 1' resulted in error: no such key: missing".to_owned();
    assert_eq!(failed, [Judgement::Failed(PolicyFailure { message })]);
    let unread = judgements(json!({"validations": [{"expression": "image('a').tag() == 'b'"}]}));
    let [Judgement::Failed(PolicyFailure { message })] = unread.as_slice() else { panic!("{unread:?}") };
    assert_eq!(message, "compilation error: undeclared reference to 'image' (in container '')");
    let lazy = judgements(json!({"variables": [{"name": "bad", "expression": "object.missing"},
        {"name": "composed", "expression": "variables.bad + 1"}],
        "validations": [{"expression": "true || variables.bad"}, {"expression": "variables.composed == 1"}]}));
    let message = "expression 'variables.composed == 1' resulted in error: composited variable \"composed\" fails to \
                   evaluate: composited variable \"bad\" fails to evaluate: no such key: missing";
    let failure = PolicyFailure { message: message.to_owned() };
    assert_eq!(lazy, [Judgement::Admitted, Judgement::Failed(failure)]);
}

#[test]
fn ad22_annotations_are_published_unless_they_are_empty() {
    let read = policy(json!({"validations": [], "auditAnnotations": [
        {"key": "replicas", "valueExpression": "string(object.spec.replicas)"},
        {"key": "nothing", "valueExpression": "' '"},
        {"key": "null", "valueExpression": "null"},
    ]}));
    let noted = judged(&read, &AccessAnswers::new()).unwrap().annotations;
    assert_eq!(noted, [Noted::Published { key: "replicas".to_owned(), value: "3".to_owned() }]);
}

#[test]
fn ad23_the_authorizer_asks_and_goes_on_with_the_answer() {
    let read = policy(json!({"validations": [
        {"expression": "authorizer.group('apps').resource('deployments').namespace('shop').name('web').check('update').allowed()"},
        {"expression": "authorizer.requestResource.check('approve').reason() == 'so'"},
        {"expression": "authorizer.serviceAccount('shop', 'bot').path('/healthz').check('get').allowed()"},
    ]}));
    let mut answers = AccessAnswers::new();
    let mut asked = Vec::new();
    let verdict = loop {
        match judged(&read, &answers) {
            Ok(verdict) => break verdict,
            Err(Asks(question)) => {
                let answer = Answer { allowed: question.path.is_none(), reason: "so".to_owned(), error: String::new() };
                asked.push((*question).clone());
                assert_eq!(answers.insert(*question, answer), None, "it is asked once");
            }
        }
    };
    assert_eq!((asked[0].group.as_str(), asked[0].verb.as_str(), asked[0].name.as_str()), ("apps", "update", "web"));
    assert_eq!((asked[1].resource.as_str(), asked[1].verb.as_str()), ("workloadrebalancers", "approve"));
    assert_eq!(asked[2].user(&ballast_k8s::User::default()).name, "system:serviceaccount:shop:bot");
    let judgements: Vec<_> = verdict.decisions.iter().map(|decision| &decision.judgement).collect();
    assert!(matches!(judgements[..], [Judgement::Admitted, Judgement::Admitted, Judgement::Denied { .. }]));
}

#[test]
fn ad24_mutations_make_patches() {
    let spec = json!({"mutations": [
        {"patchType": "ApplyConfiguration", "applyConfiguration":
            {"expression": "Object{metadata: Object.metadata{labels: Object.metadata.labels{by: 'policy'}}, spec: Object.spec{replicas: object.spec.replicas + 1}}"}},
        {"patchType": "JSONPatch", "jsonPatch": {"expression":
            "has(object.spec.none) ? [JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'c'}] : []"}},
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.wrong{}}"}},
    ]});
    let read = Policy::read("p", PolicyKind::Mutating, &spec).unwrap();
    let (object, answers) = (object(), AccessAnswers::new());
    let inputs = Inputs {
        object: Value::of(&object),
        old_object: Value::Null,
        request: Value::Null,
        params: Value::Null,
        namespace: Value::Null,
        authorizer: None,
        answers: &answers,
    };
    let patches: Vec<_> = read.mutations.iter().map(|mutation| read.patch(mutation, &inputs).unwrap()).collect();
    let Json::Object(applied) = json!({"metadata": {"labels": {"by": "policy"}}, "spec": {"replicas": 4}}) else {
        panic!()
    };
    assert_eq!(patches[0], Ok(MutationPatch::Apply(applied)));
    assert_eq!(
        patches[1],
        Ok(MutationPatch::Json(json!([{"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}])))
    );
    assert!(
        patches[2].as_ref().is_err_and(|failure| failure.message.starts_with("type mismatch: ")),
        "{:?}",
        patches[2]
    );
}
