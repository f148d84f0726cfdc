//! Interprets the responses of gates (SG15, SG16). Pure.

use http::StatusCode;
use serde_json::Value;

use super::GateAnswer;
use ballast_api::ballast::v1alpha1::Holds;

/// Maximum length of a message from a response. It is copied to a condition and an event.
const WORDS_MAX: usize = 256;

/// Interprets the response of a webhook.
pub fn of_webhook(status: StatusCode, body: &[u8]) -> GateAnswer {
    let answer = match json(status, body) {
        Ok(answer) => answer,
        Err(no) => return no,
    };
    let words = shown(answer["message"].as_str().unwrap_or_default());
    let told = |says: &str| if words.is_empty() { format!("it {says}") } else { format!("it {says}: {words}") };
    match answer["allowed"].as_bool() {
        Some(true) => GateAnswer::yes(told("allows it")),
        Some(false) => GateAnswer::no(told("does not allow it")),
        None => GateAnswer::no("its answer has no \"allowed\" that is true or false"),
    }
}

/// Interprets the response of a Prometheus server to an instant query.
pub fn of_prometheus(status: StatusCode, body: &[u8], holds: Holds) -> GateAnswer {
    // Prometheus sends the cause of a failure with a status such as 400.
    let failure = || serde_json::from_slice::<Value>(body).ok().filter(|answer| answer["error"].is_string());
    let answer = match json(status, body) {
        Ok(answer) => answer,
        Err(no) => match failure() {
            Some(answer) => answer,
            None => return no,
        },
    };
    if status != StatusCode::OK || answer["status"] != "success" {
        let words = shown(answer["error"].as_str().unwrap_or("its answer does not say \"success\""));
        return GateAnswer::no(format!("the query fails: {words}"));
    }
    let data = &answer["data"];
    let samples: Option<Vec<f64>> = match data["resultType"].as_str() {
        Some("scalar") => number(&data["result"]).map(|number| vec![number]),
        Some("vector") => data["result"].as_array().and_then(|all| all.iter().map(|it| number(&it["value"])).collect()),
        Some("matrix") => data["result"].as_array().and_then(|all| {
            let values = all.iter().map(|it| it["values"].as_array().map(|values| values.iter().map(number)));
            let values: Option<Vec<_>> = values.collect();
            values?.into_iter().flatten().collect()
        }),
        _ => None,
    };
    let Some(samples) = samples else { return GateAnswer::no("its answer has samples that are no numbers") };
    let Some(first) = samples.first() else { return GateAnswer::no("the query has no sample") };
    let refused: Vec<&f64> = samples.iter().filter(|sample| !holds.of(**sample)).collect();
    match (refused.first(), samples.len()) {
        (None, 1) => GateAnswer::yes(format!("{first} {holds}")),
        (None, count) => GateAnswer::yes(format!("{count} samples are {holds}")),
        (Some(refused), 1) => GateAnswer::no(format!("{refused} is not {holds}")),
        (Some(sample), count) => {
            GateAnswer::no(format!("{} of {count} samples are not {holds}, such as {sample}", refused.len()))
        }
    }
}

/// Returns the number of a sample `[time, "number"]`.
fn number(sample: &Value) -> Option<f64> {
    sample.get(1)?.as_str()?.parse().ok()
}

fn json(status: StatusCode, body: &[u8]) -> Result<Value, GateAnswer> {
    if status.is_redirection() {
        return Err(GateAnswer::no(format!("it answers {status}, and redirects are not followed")));
    }
    if status != StatusCode::OK {
        return Err(GateAnswer::no(format!("it answers {status}")));
    }
    serde_json::from_slice(body).map_err(|_| GateAnswer::no("its answer is no JSON"))
}

/// Returns a text of another server as a single line of limited length.
fn shown(text: &str) -> String {
    let plain = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut words: String = plain.collect::<String>().trim().to_owned();
    if words.len() > WORDS_MAX {
        words.truncate(words.floor_char_boundary(WORDS_MAX));
        words.push_str("...");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: &str) -> GateAnswer {
        of_prometheus(StatusCode::OK, body.as_bytes(), "< 5".parse().unwrap())
    }

    #[test]
    fn sg15_every_sample_must_hold_and_none_is_no_yes() {
        let vector = |values: &[&str]| {
            let samples: Vec<String> =
                values.iter().map(|it| format!(r#"{{"metric":{{}},"value":[1,"{it}"]}}"#)).collect();
            format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#, samples.join(","))
        };
        assert_eq!(asked(&vector(&["4.5"])), GateAnswer::yes("4.5 < 5"));
        assert_eq!(asked(&vector(&["1", "2"])), GateAnswer::yes("2 samples are < 5"));
        assert_eq!(asked(&vector(&["1", "7"])), GateAnswer::no("1 of 2 samples are not < 5, such as 7"));
        assert_eq!(asked(&vector(&["NaN"])), GateAnswer::no("NaN is not < 5"));
        assert_eq!(asked(&vector(&["+Inf"])), GateAnswer::no("inf is not < 5"));
        assert_eq!(asked(&vector(&[])), GateAnswer::no("the query has no sample"));
        assert!(asked(r#"{"status":"success","data":{"resultType":"scalar","result":[1,"3"]}}"#).is_yes);
        let matrix = |last: &str| {
            format!(
                r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"values":[[1,"3"],[2,"{last}"]]}}]}}}}"#
            )
        };
        assert!(asked(&matrix("4")).is_yes && !asked(&matrix("5")).is_yes);
        for no in [
            r#"{"status":"success","data":{"resultType":"string","result":[1,"3"]}}"#,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"value":[1,3]}]}}"#,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"histogram":[1,{}]}]}}"#,
            r#"{"status":"success","data":{"resultType":"vector","result":{}}}"#,
            r#"{"status":"error","error":"parse error"}"#,
            r#"{"data":{"resultType":"vector","result":[]}}"#,
            "[]",
            "",
            "<html>",
        ] {
            assert!(!asked(no).is_yes, "{no}");
        }
    }

    #[test]
    fn a_failed_query_has_the_words_of_prometheus() {
        let asked = |code: u16, body: &str| {
            of_prometheus(StatusCode::from_u16(code).unwrap(), body.as_bytes(), "< 5".parse().unwrap())
        };
        let body = r#"{"status":"error","errorType":"bad_data","error":"1:5: parse error: unclosed left parenthesis"}"#;
        let told = "the query fails: 1:5: parse error: unclosed left parenthesis";
        assert_eq!(asked(400, body), GateAnswer::no(told));
        assert_eq!(asked(503, "overloaded"), GateAnswer::no("it answers 503 Service Unavailable"));
        let lies = r#"{"status":"success","error":"x","data":{"resultType":"scalar","result":[1,"3"]}}"#;
        assert!(!asked(500, lies).is_yes);
        let long = format!(r#"{{"status":"error","error":"{}"}}"#, "x".repeat(9_000));
        assert!(asked(400, &long).words.len() < WORDS_MAX + 40);
    }

    #[test]
    fn sg16_a_webhook_says_yes_by_allowed_true_alone() {
        let asked = |code: u16, body: &str| of_webhook(StatusCode::from_u16(code).unwrap(), body.as_bytes());
        assert_eq!(asked(200, r#"{"allowed": true}"#), GateAnswer::yes("it allows it"));
        assert_eq!(
            asked(200, r#"{"allowed": false, "message": "no\nway"}"#),
            GateAnswer::no("it does not allow it: no way")
        );
        let long = format!(r#"{{"allowed": false, "message": "{}"}}"#, "ä".repeat(1_000));
        assert!(asked(200, &long).words.len() < WORDS_MAX + 40);
        for (code, body) in [
            (500, r#"{"allowed": true}"#),
            (201, r#"{"allowed": true}"#),
            (302, r#"{"allowed": true}"#),
            (200, r#"{"allowed": "true"}"#),
            (200, r#"{"allowed": 1}"#),
            (200, "true"),
            (200, r#"{"allowed": true"#),
            (200, ""),
        ] {
            assert!(!asked(code, body).is_yes, "{code} {body}");
        }
    }
}
