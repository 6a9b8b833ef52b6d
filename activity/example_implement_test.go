package activity_test

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
)

// Price is the declaration that programs share with the worker.
var Price = activity.Declare[string, int]("price", activity.StartToClose(time.Second))

// Shop has the dependencies of the worker's functions.
type Shop struct{ Prices map[string]int }

// Price is a method with the types of the declaration.
func (s *Shop) Price(_ context.Context, item string) (int, error) {
	return s.Prices[item], nil
}

// The functions of a worker are methods of a struct with their dependencies.
func ExampleImplement() {
	shop := &Shop{Prices: map[string]int{"cup": 3}}
	handlers := []activity.Handler{activity.Implement(Price, shop.Price)} // for Worker.Register
	out, err := handlers[0].Invoke(context.Background(), []byte(`"cup"`))
	fmt.Println(string(out), err)
	// Output: 3 <nil>
}
