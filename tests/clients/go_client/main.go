// Uses the generated clients: writes, reads, replaces, lists and deletes objects, and sends a task
// and a review. It ends with the first fault.
//
//	client URL CA CERTIFICATE KEY NAMESPACE OBJECTS
//
// OBJECTS is a JSON object with a rebalancer, a binding, a task and a review.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"ballast.test/apps"
	"ballast.test/ballast"
	"ballast.test/task"
	"ballast.test/work"
)

type objects struct {
	Rebalancer apps.ComGithubKarmadaIoKarmadaPkgApisAppsV1alpha1WorkloadRebalancer
	Binding    work.ComGithubKarmadaIoKarmadaPkgApisWorkV1alpha2ResourceBinding
	Task       task.ComGithubKarmadaIoKarmadaPkgApisTaskV1alpha1RescheduleTask
	Review     ballast.DevBallastV1alpha1PlacementReview
}

func need(what string, err error) {
	if err != nil {
		log.Fatalf("%s: %v", what, err)
	}
}

func check(what string, got, wanted any) {
	if got != wanted {
		log.Fatalf("%s: %v, and not %v", what, got, wanted)
	}
}

// status is the code of an answer. An error of the client is one, too.
func status(what string, answer *http.Response, err error, wanted int) {
	if answer == nil || answer.StatusCode != wanted {
		log.Fatalf("%s: %v %v", what, answer, err)
	}
}

func connection(ca, certificate, key string) *http.Client {
	pem, err := os.ReadFile(ca)
	need("the CA", err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	need("the certificate", err)
	settings := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true}}
}

func rebalancers(ctx context.Context, url string, through *http.Client,
	object apps.ComGithubKarmadaIoKarmadaPkgApisAppsV1alpha1WorkloadRebalancer) {
	settings := apps.NewConfiguration()
	settings.HTTPClient, settings.Servers = through, apps.ServerConfigurations{{URL: url}}
	api := apps.NewAPIClient(settings).AppsV1alpha1API
	name := *object.Metadata.Name
	made, answer, err := api.CreateAppsV1alpha1WorkloadRebalancer(ctx).
		ComGithubKarmadaIoKarmadaPkgApisAppsV1alpha1WorkloadRebalancer(object).Execute()
	status("create", answer, err, 201)
	check("its name", *made.Metadata.Name, name)
	_, answer, err = api.CreateAppsV1alpha1WorkloadRebalancer(ctx).
		ComGithubKarmadaIoKarmadaPkgApisAppsV1alpha1WorkloadRebalancer(object).Execute()
	status("create again", answer, err, 409)
	// The server may write its status in between.
	for answer = nil; answer == nil || answer.StatusCode == 409; {
		read, there, err := api.ReadAppsV1alpha1WorkloadRebalancer(ctx, name).Execute()
		status("read", there, err, 200)
		read.Metadata.Annotations = &map[string]string{"by": "go"}
		_, answer, err = api.ReplaceAppsV1alpha1WorkloadRebalancer(ctx, name).
			ComGithubKarmadaIoKarmadaPkgApisAppsV1alpha1WorkloadRebalancer(*read).Execute()
		if answer == nil {
			need("replace", err)
		}
	}
	status("replace", answer, nil, 200)
	listed, answer, err := api.ListAppsV1alpha1WorkloadRebalancer(ctx).Execute()
	status("list", answer, err, 200)
	found := ""
	for _, item := range listed.Items {
		if *item.Metadata.Name == name {
			found = (*item.Metadata.Annotations)["by"]
		}
	}
	check("what the list has of it", found, "go")
	_, answer, err = api.DeleteAppsV1alpha1WorkloadRebalancer(ctx, name).Execute()
	status("delete", answer, err, 200)
}

func main() {
	url, namespace := os.Args[1], os.Args[5]
	var given objects
	need("the objects", json.Unmarshal([]byte(os.Args[6]), &given))
	ctx, through := context.Background(), connection(os.Args[2], os.Args[3], os.Args[4])
	rebalancers(ctx, url, through, given.Rebalancer)

	bindings := work.NewConfiguration()
	bindings.HTTPClient, bindings.Servers = through, work.ServerConfigurations{{URL: url}}
	made, answer, err := work.NewAPIClient(bindings).WorkV1alpha2API.
		CreateWorkV1alpha2NamespacedResourceBinding(ctx, namespace).
		ComGithubKarmadaIoKarmadaPkgApisWorkV1alpha2ResourceBinding(given.Binding).Execute()
	status("a binding", answer, err, 201)
	check("its workload", made.Spec.Resource.Name, given.Binding.Spec.Resource.Name)

	tasks := task.NewConfiguration()
	tasks.HTTPClient, tasks.Servers = through, task.ServerConfigurations{{URL: url}}
	_, answer, err = task.NewAPIClient(tasks).TaskV1alpha1API.CreateTaskV1alpha1RescheduleTask(ctx).
		ComGithubKarmadaIoKarmadaPkgApisTaskV1alpha1RescheduleTask(given.Task).Execute()
	status("a task", answer, err, 201)

	reviews := ballast.NewConfiguration()
	reviews.HTTPClient, reviews.Servers = through, ballast.ServerConfigurations{{URL: url}}
	_, answer, err = ballast.NewAPIClient(reviews).BallastV1alpha1API.CreateBallastV1alpha1PlacementReview(ctx).
		DevBallastV1alpha1PlacementReview(given.Review).Execute()
	status("a review", answer, err, 201)
	fmt.Println("all was answered")
}
