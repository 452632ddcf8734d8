package kinds

// table has one row for each kind, grouped by API group in lookup order. A dash means none. The
// first version is the preferred one: objects are stored and sent in it. Short names and categories
// are those of upstream's discovery. Singular names are the kinds in lower case.
//
//	kind  plural  scope  short names  categories  versions
const table = `
group core
  ComponentStatus        componentstatuses       cluster     cs      -    v1
  ConfigMap              configmaps              namespaced  cm      -    v1
  Endpoints              endpoints               namespaced  ep      -    v1
  Event                  events                  namespaced  ev      -    v1
  LimitRange             limitranges             namespaced  limits  -    v1
  Namespace              namespaces              cluster     ns      -    v1
  Node                   nodes                   cluster     no      -    v1
  PersistentVolumeClaim  persistentvolumeclaims  namespaced  pvc     -    v1
  PersistentVolume       persistentvolumes       cluster     pv      -    v1
  Pod                    pods                    namespaced  po      all  v1
  PodTemplate            podtemplates            namespaced  -       -    v1
  ReplicationController  replicationcontrollers  namespaced  rc      all  v1
  ResourceQuota          resourcequotas          namespaced  quota   -    v1
  Secret                 secrets                 namespaced  -       -    v1
  ServiceAccount         serviceaccounts         namespaced  sa      -    v1
  Service                services                namespaced  svc     all  v1

group apps
  ControllerRevision  controllerrevisions  namespaced  -       -    v1 v1beta2 v1beta1
  DaemonSet           daemonsets           namespaced  ds      all  v1 v1beta2
  Deployment          deployments          namespaced  deploy  all  v1 v1beta2 v1beta1
  ReplicaSet          replicasets          namespaced  rs      all  v1 v1beta2
  StatefulSet         statefulsets         namespaced  sts     all  v1 v1beta2 v1beta1

group batch
  CronJob  cronjobs  namespaced  cj  all  v1 v1beta1
  Job      jobs      namespaced  -   all  v1

group autoscaling
  HorizontalPodAutoscaler  horizontalpodautoscalers  namespaced  hpa  all  v2 v1

group policy
  PodDisruptionBudget  poddisruptionbudgets  namespaced  pdb  -  v1 v1beta1

group coordination.k8s.io
  Lease           leases           namespaced  -  -  v1 v1beta1
  LeaseCandidate  leasecandidates  namespaced  -  -  v1beta1 v1alpha2

group discovery.k8s.io
  EndpointSlice  endpointslices  namespaced  -  -  v1 v1beta1

group events.k8s.io
  Event  events  namespaced  ev  -  v1 v1beta1

group networking.k8s.io
  IPAddress      ipaddresses      cluster     ip      -  v1 v1beta1
  Ingress        ingresses        namespaced  ing     -  v1 v1beta1
  IngressClass   ingressclasses   cluster     -       -  v1 v1beta1
  NetworkPolicy  networkpolicies  namespaced  netpol  -  v1
  ServiceCIDR    servicecidrs     cluster     -       -  v1 v1beta1

group node.k8s.io
  RuntimeClass  runtimeclasses  cluster  -  -  v1 v1beta1 v1alpha1

group rbac.authorization.k8s.io
  ClusterRole         clusterroles         cluster     -  -  v1 v1beta1 v1alpha1
  ClusterRoleBinding  clusterrolebindings  cluster     -  -  v1 v1beta1 v1alpha1
  Role                roles                namespaced  -  -  v1 v1beta1 v1alpha1
  RoleBinding         rolebindings         namespaced  -  -  v1 v1beta1 v1alpha1

group scheduling.k8s.io
  CompositePodGroup  compositepodgroups  namespaced  -   -  v1alpha3
  PodGroup           podgroups           namespaced  -   -  v1beta1 v1alpha3
  PriorityClass      priorityclasses     cluster     pc  -  v1 v1beta1
  Workload           workloads           namespaced  -   -  v1beta1 v1alpha3

group storage.k8s.io
  CSIDriver              csidrivers               cluster     -    -  v1 v1beta1
  CSINode                csinodes                 cluster     -    -  v1 v1beta1
  CSIStorageCapacity     csistoragecapacities     namespaced  -    -  v1 v1beta1 v1alpha1
  StorageClass           storageclasses           cluster     sc   -  v1 v1beta1
  VolumeAttachment       volumeattachments        cluster     -    -  v1 v1beta1 v1alpha1
  VolumeAttributesClass  volumeattributesclasses  cluster     vac  -  v1 v1beta1 v1alpha1

group admissionregistration.k8s.io
  MutatingAdmissionPolicy           mutatingadmissionpolicies          cluster  -  api-extensions  v1 v1beta1 v1alpha1
  MutatingAdmissionPolicyBinding    mutatingadmissionpolicybindings    cluster  -  api-extensions  v1 v1beta1 v1alpha1
  MutatingWebhookConfiguration      mutatingwebhookconfigurations      cluster  -  api-extensions  v1 v1beta1
  ValidatingAdmissionPolicy         validatingadmissionpolicies        cluster  -  api-extensions  v1 v1beta1 v1alpha1
  ValidatingAdmissionPolicyBinding  validatingadmissionpolicybindings  cluster  -  api-extensions  v1 v1beta1 v1alpha1
  ValidatingWebhookConfiguration    validatingwebhookconfigurations    cluster  -  api-extensions  v1 v1beta1

group apiextensions.k8s.io
  CustomResourceDefinition  customresourcedefinitions  cluster  crd,crds  api-extensions  v1

group certificates.k8s.io
  CertificateSigningRequest  certificatesigningrequests  cluster     csr  -  v1 v1beta1
  ClusterTrustBundle         clustertrustbundles         cluster     -    -  v1 v1beta1 v1alpha1
  PodCertificateRequest      podcertificaterequests      namespaced  -    -  v1 v1beta1

group flowcontrol.apiserver.k8s.io
  FlowSchema                  flowschemas                  cluster  -  -  v1 v1beta3 v1beta2 v1beta1
  PriorityLevelConfiguration  prioritylevelconfigurations  cluster  -  -  v1 v1beta3 v1beta2 v1beta1

group resource.k8s.io
  DeviceClass                deviceclasses               cluster     -  -  v1 v1beta2 v1beta1
  DeviceTaintRule            devicetaintrules            cluster     -  -  v1 v1beta2 v1alpha3
  ResourceClaim              resourceclaims              namespaced  -  -  v1 v1beta2 v1beta1
  ResourceClaimTemplate      resourceclaimtemplates      namespaced  -  -  v1 v1beta2 v1beta1
  ResourcePoolStatusRequest  resourcepoolstatusrequests  cluster     -  -  v1alpha3
  ResourceSlice              resourceslices              cluster     -  -  v1 v1beta2 v1beta1

group lifecycle.k8s.io
  Eviction         evictions         namespaced  -  -  v1alpha1
  EvictionRequest  evictionrequests  namespaced  -  -  v1alpha1

group internal.apiserver.k8s.io
  StorageVersion  storageversions  cluster  -  -  v1alpha1

group storagemigration.k8s.io
  StorageVersionMigration  storageversionmigrations  cluster  -  -  v1 v1beta1

group extensions
  DaemonSet      daemonsets       namespaced  ds      -  v1beta1
  Deployment     deployments      namespaced  deploy  -  v1beta1
  Ingress        ingresses        namespaced  ing     -  v1beta1
  NetworkPolicy  networkpolicies  namespaced  netpol  -  v1beta1
  ReplicaSet     replicasets      namespaced  rs      -  v1beta1
`
