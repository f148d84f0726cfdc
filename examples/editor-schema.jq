# Makes a JSON Schema of the kinds of ballast.dev for editors, from their OpenAPI document
# (docs/clients.md). Unknown fields are errors, as for the server.
.components.schemas
| walk(if type == "object" and has("$ref")
    then .["$ref"] |= sub("#/components/schemas/"; "#/definitions/") else . end)
| walk(if type == "object" and (.properties | type) == "object" and (has("additionalProperties") | not)
    then .additionalProperties = false else . end)
| {allOf: [to_entries[] | .key as $key | .value["x-kubernetes-group-version-kind"][0]? // empty
    | select(.group == "ballast.dev")
    | {if: {properties: {kind: {const: .kind}}}, then: {"$ref": ("#/definitions/" + $key)}}],
   definitions: .}
