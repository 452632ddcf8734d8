package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
)

// isTrue reads a query's flag as upstream does: present and neither "false" nor "0".
func isTrue(query url.Values, name string) bool {
	values, there := query[name]
	if !there {
		return false
	}
	return len(values) == 0 || strings.ToLower(values[0]) != "false" && values[0] != "0"
}

// parseOptions reads a query's options into T with T's generated conversion. Invalid values are a
// 400; unknown parameters are ignored.
func parseOptions[T any](query url.Values, convert func(*url.Values, *T, conversion.Scope) error) (T, error) {
	var opts T
	if err := convert(&query, &opts, nil); err != nil {
		return opts, apierrors.NewBadRequest(err.Error())
	}
	return opts, nil
}

func listOptions(query url.Values) (metav1.ListOptions, error) {
	return parseOptions(query, metav1.Convert_url_Values_To_v1_ListOptions)
}

func getOptions(query url.Values) (metav1.GetOptions, error) {
	return parseOptions(query, metav1.Convert_url_Values_To_v1_GetOptions)
}

func deleteOptions(query url.Values) (metav1.DeleteOptions, error) {
	return parseOptions(query, metav1.Convert_url_Values_To_v1_DeleteOptions)
}

func createOptions(r *http.Request) (metav1.CreateOptions, error) {
	opts, err := parseOptions(r.URL.Query(), metav1.Convert_url_Values_To_v1_CreateOptions)
	opts.FieldManager = fieldManager(opts.FieldManager, r.UserAgent())
	return opts, err
}

func updateOptions(r *http.Request) (metav1.UpdateOptions, error) {
	opts, err := parseOptions(r.URL.Query(), metav1.Convert_url_Values_To_v1_UpdateOptions)
	opts.FieldManager = fieldManager(opts.FieldManager, r.UserAgent())
	return opts, err
}

// patchOptions leaves the field manager of an apply empty, because an apply must name its manager.
func patchOptions(r *http.Request, apply isApply) (metav1.PatchOptions, error) {
	opts, err := parseOptions(r.URL.Query(), metav1.Convert_url_Values_To_v1_PatchOptions)
	if !apply {
		opts.FieldManager = fieldManager(opts.FieldManager, r.UserAgent())
	}
	return opts, err
}

// isApply means that a patch is a server-side apply.
type isApply bool

// fieldManager is the manager of a write: the one named, or else the program that sent it
// (upstream's managerOrUserAgent).
func fieldManager(named, userAgent string) string {
	const longest = 128
	if named != "" {
		return named
	}
	program, _, _ := strings.Cut(userAgent, "/")
	var name strings.Builder
	for _, r := range program {
		if !unicode.IsPrint(r) {
			continue
		}
		if name.Len()+len(string(r)) > longest {
			break
		}
		name.WriteRune(r)
	}
	return name.String()
}
