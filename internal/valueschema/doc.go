// Package valueschema derives JSON Schemas from Go types, and holds JSON values against schemas.
//
// The schema of a type describes the JSON that encoding/json writes for it, and is stricter than encoding/json when it
// reads: fields without omitempty or omitzero must be present, and there may be no others. A value that is to start a
// run is typed by people and programs that do not have the Go type, so a misspelt field must not be ignored. A value
// that is decoded anyway, such as the payload of a signal, has the schema of the JSON that encoding/json reads.
package valueschema
