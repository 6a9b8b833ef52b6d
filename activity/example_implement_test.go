package activity_test

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
)

// Greet is what programs that declare flows share with the worker.
var Greet = activity.Declare[string, string]("greet", activity.StartToClose(time.Second))

// Greeter is what the worker has besides: what its functions need.
type Greeter struct{ Greeting string }

// Greet is a method with the types of the declaration.
func (g *Greeter) Greet(_ context.Context, name string) (string, error) {
	return g.Greeting + ", " + name, nil
}

// The functions of a worker are methods of a struct with their dependencies.
func ExampleImplement() {
	greeter := &Greeter{Greeting: "Hello"}
	handlers := []activity.Handler{activity.Implement(Greet, greeter.Greet)} // for Worker.Register
	out, err := handlers[0].Invoke(context.Background(), []byte(`"Ada"`))
	fmt.Println(string(out), err)
	// Output: "Hello, Ada" <nil>
}
