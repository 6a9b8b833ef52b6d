package enginerpc

// ConnOf returns the connection of a *runtime.Engine, with the keys and the typed calls of the library, or nil for a
// nil engine. It is for packages of this module. Package runtime sets it when it is initialized, so that its Engine has
// no method with a type that users cannot name.
var ConnOf func(engine any) *Conn
