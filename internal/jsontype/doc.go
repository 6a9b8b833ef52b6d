// Package jsontype describes Go types as encoding/json handles them: [Fields] lists the fields of a struct that JSON
// has, and [Check] finds types whose values JSON would lose or refuse. It has no dependencies, so that packages of
// declarations can use it.
package jsontype
