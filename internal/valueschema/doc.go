// Package valueschema derives JSON Schemas from Go types, and holds JSON values against schemas.
//
// The schema of a type describes what encoding/json writes for it, and is stricter than what encoding/json reads:
// fields without omitempty or omitzero must be present, and there may be no others. A value that is to start a run, or
// to end a wait, is typed by people and programs that do not have the Go type, so a misspelt field must not be ignored.
package valueschema
