package kinds

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Equal reports whether two objects, or parts of them, are semantically equal, as
// equality.Semantic.DeepEqual does. Most compared values are identical, which reflect.DeepEqual
// detects in a tenth of the time.
func Equal(a, b any) bool { return reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b) }
