import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** The Java admin client; every call is one named operation with plain JSON in and out. */
final class AdminOperations {
    private final Map<String, Admin> admins = new HashMap<>();

    private Admin admin(JsonNode request) {
        String bootstrap = request.get("bootstrap").asText();
        return admins.computeIfAbsent(bootstrap, key -> Admin.create(Json.config(request)));
    }

    Object run(JsonNode request) throws Exception {
        Admin admin = admin(request);
        JsonNode in = request.get("in");
        switch (request.get("call").asText()) {
            case "close":
                admins.remove(request.get("bootstrap").asText()).close();
                return null;
            case "create_topic":
                return createTopic(admin, in);
            case "delete_topics":
                admin.deleteTopics(Json.strings(in.get("topics"))).all().get();
                return null;
            case "list_topics":
                return admin.listTopics().names().get();
            case "describe_topic":
                return describeTopic(admin, in.get("topic").asText());
            case "create_partitions":
                admin.createPartitions(Map.of(in.get("topic").asText(),
                    NewPartitions.increaseTo(in.get("count").asInt()))).all().get();
                return null;
            case "describe_configs":
                return describeConfigs(admin, in);
            case "alter_configs":
                return alterConfigs(admin, in);
            case "list_config_resources":
                return admin.listConfigResources().all().get().stream()
                    .map(resource -> resource.type() + ":" + resource.name()).sorted()
                    .collect(Collectors.toList());
            case "list_offsets":
                return listOffsets(admin, in);
            case "delete_records":
                TopicPartition cut = Json.partition(in.get("partition").asText());
                return admin.deleteRecords(
                    Map.of(cut, RecordsToDelete.beforeOffset(in.get("before").asLong())))
                    .lowWatermarks().get(cut).get().lowWatermark();
            case "list_groups":
                return admin.listGroups().all().get().stream()
                    .map(group -> List.of(group.groupId(), group.protocol(),
                        group.groupState().map(Object::toString).orElse("")))
                    .collect(Collectors.toList());
            case "describe_group":
                return describeGroup(admin, in.get("group").asText());
            case "describe_classic_group":
                return admin.describeClassicGroups(List.of(in.get("group").asText())).all().get()
                    .values().iterator().next().state().toString();
            case "group_offsets":
                return groupOffsets(admin, in.get("group").asText());
            case "alter_group_offsets":
                return alterGroupOffsets(admin, in);
            case "delete_group_offsets":
                admin.deleteConsumerGroupOffsets(in.get("group").asText(),
                    Json.strings(in.get("partitions")).stream().map(Json::partition)
                        .collect(Collectors.toSet())).all().get();
                return null;
            case "delete_groups":
                admin.deleteConsumerGroups(Json.strings(in.get("groups"))).all().get();
                return null;
            case "remove_members":
                return removeMembers(admin, in);
            case "describe_cluster":
                return describeCluster(admin);
            case "describe_features":
                return describeFeatures(admin);
            case "describe_quorum":
                return describeQuorum(admin);
            case "describe_log_dirs":
                return describeLogDirs(admin, in.get("broker").asInt());
            case "describe_producers":
                return describeProducers(admin, in.get("partition").asText());
            default:
                throw new IllegalArgumentException(request.get("call").asText());
        }
    }

    private static Object createTopic(Admin admin, JsonNode in) throws Exception {
        JsonNode replicas = in.get("replication_factor");
        String name = in.get("topic").asText();
        NewTopic topic;
        if (in.has("assignments")) {
            Map<Integer, List<Integer>> assignments = new TreeMap<>();
            in.get("assignments").fields().forEachRemaining(entry -> {
                List<Integer> brokers = new ArrayList<>();
                entry.getValue().forEach(broker -> brokers.add(broker.asInt()));
                assignments.put(Integer.parseInt(entry.getKey()), brokers);
            });
            topic = new NewTopic(name, assignments);
        } else {
            topic = new NewTopic(name,
                in.has("partitions")
                    ? java.util.Optional.of(in.get("partitions").asInt())
                    : java.util.Optional.empty(),
                replicas == null
                    ? java.util.Optional.empty()
                    : java.util.Optional.of((short) replicas.asInt()));
        }
        Map<String, String> configs = new HashMap<>();
        if (in.has("configs")) {
            in.get("configs").fields()
                .forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
        }
        boolean validateOnly = in.path("validate_only").asBoolean(false);
        var result = admin.createTopics(List.of(topic.configs(configs)),
            new CreateTopicsOptions().validateOnly(validateOnly));
        result.all().get();
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("partitions", result.numPartitions(name).get());
        out.put("replication_factor", result.replicationFactor(name).get());
        out.put("configs", result.config(name).get().entries().size());
        out.put("topic_id", validateOnly ? null : result.topicId(name).get().toString());
        return out;
    }

    private static Object describeTopic(Admin admin, String topic) throws Exception {
        var description = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("topic_id", description.topicId().toString());
        out.put("internal", description.isInternal());
        out.put("partitions", description.partitions().stream()
            .map(p -> Map.of("partition", p.partition(), "leader", p.leader().id(),
                "replicas", p.replicas().stream().map(n -> n.id()).collect(Collectors.toList()),
                "isr", p.isr().stream().map(n -> n.id()).collect(Collectors.toList())))
            .collect(Collectors.toList()));
        return out;
    }

    private static ConfigResource resource(JsonNode in) {
        return new ConfigResource(
            ConfigResource.Type.valueOf(in.get("type").asText()), in.get("name").asText());
    }

    private static Object describeConfigs(Admin admin, JsonNode in) throws Exception {
        ConfigResource resource = resource(in);
        DescribeConfigsOptions options =
            new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        Map<String, Object> out = new TreeMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource), options).all().get()
            .get(resource).entries()) {
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("value", entry.value());
            facts.put("source", entry.source().toString());
            facts.put("type", entry.type().toString());
            facts.put("sensitive", entry.isSensitive());
            facts.put("read_only", entry.isReadOnly());
            facts.put("documented", entry.documentation() != null && !entry.documentation().isEmpty());
            facts.put("synonyms", entry.synonyms().stream()
                .map(s -> List.of(s.source().toString(), s.name(), String.valueOf(s.value())))
                .collect(Collectors.toList()));
            out.put(entry.name(), facts);
        }
        return out;
    }

    private static Object alterConfigs(Admin admin, JsonNode in) throws Exception {
        List<AlterConfigOp> operations = new ArrayList<>();
        for (JsonNode change : in.get("changes")) {
            JsonNode value = change.get(2);
            operations.add(new AlterConfigOp(
                new ConfigEntry(change.get(1).asText(), value.isNull() ? null : value.asText()),
                AlterConfigOp.OpType.valueOf(change.get(0).asText())));
        }
        Map<ConfigResource, Collection<AlterConfigOp>> changes = Map.of(resource(in), operations);
        admin.incrementalAlterConfigs(changes).all().get();
        return null;
    }

    private static OffsetSpec spec(JsonNode node) {
        if (node.isNumber()) {
            return OffsetSpec.forTimestamp(node.asLong());
        }
        switch (node.asText()) {
            case "earliest":
                return OffsetSpec.earliest();
            case "latest":
                return OffsetSpec.latest();
            case "max_timestamp":
                return OffsetSpec.maxTimestamp();
            case "earliest_local":
                return OffsetSpec.earliestLocal();
            case "latest_tiered":
                return OffsetSpec.latestTiered();
            default:
                throw new IllegalArgumentException(node.asText());
        }
    }

    private static Object listOffsets(Admin admin, JsonNode in) throws Exception {
        Map<String, Object> out = new LinkedHashMap<>();
        TopicPartition partition = Json.partition(in.get("partition").asText());
        for (JsonNode node : in.get("specs")) {
            ListOffsetsResult.ListOffsetsResultInfo info =
                admin.listOffsets(Map.of(partition, spec(node))).partitionResult(partition).get();
            out.put(node.asText(), List.of(info.offset(), info.timestamp()));
        }
        return out;
    }

    private static Object describeGroup(Admin admin, String group) throws Exception {
        var description = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("state", description.groupState().toString());
        out.put("type", description.type().toString());
        out.put("assignor", description.partitionAssignor());
        out.put("coordinator", description.coordinator().id());
        out.put("members", description.members().stream().map(member -> {
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("client", member.clientId());
            facts.put("instance", member.groupInstanceId().orElse(null));
            facts.put("host", member.host());
            facts.put("assigned", member.assignment().topicPartitions().stream()
                .map(TopicPartition::toString).sorted().collect(Collectors.toList()));
            return facts;
        }).collect(Collectors.toList()));
        return out;
    }

    private static Object groupOffsets(Admin admin, String group) throws Exception {
        Map<String, Object> out = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
            .forEach((partition, offset) ->
                out.put(partition.toString(), List.of(offset.offset(), offset.metadata())));
        return out;
    }

    private static Object alterGroupOffsets(Admin admin, JsonNode in) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        in.get("offsets").fields().forEachRemaining(entry -> offsets.put(
            Json.partition(entry.getKey()),
            new OffsetAndMetadata(entry.getValue().asLong(), "altered")));
        admin.alterConsumerGroupOffsets(in.get("group").asText(), offsets).all().get();
        return null;
    }

    private static Object removeMembers(Admin admin, JsonNode in) throws Exception {
        List<MemberToRemove> members = Json.strings(in.get("instances")).stream()
            .map(MemberToRemove::new).collect(Collectors.toList());
        RemoveMembersFromConsumerGroupOptions options = members.isEmpty()
            ? new RemoveMembersFromConsumerGroupOptions()
            : new RemoveMembersFromConsumerGroupOptions(members);
        admin.removeMembersFromConsumerGroup(in.get("group").asText(), options).all().get();
        return null;
    }

    private static Object describeCluster(Admin admin) throws Exception {
        var cluster = admin.describeCluster();
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("cluster_id", cluster.clusterId().get());
        out.put("controller", cluster.controller().get().id());
        out.put("nodes", cluster.nodes().get().stream()
            .map(node -> node.host() + ":" + node.port()).collect(Collectors.toList()));
        return out;
    }

    private static Object describeFeatures(Admin admin) throws Exception {
        FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
        Map<String, Object> out = new TreeMap<>();
        features.finalizedFeatures().forEach((name, range) ->
            out.put(name, List.of(range.minVersionLevel(), range.maxVersionLevel())));
        return out;
    }

    private static Object describeQuorum(Admin admin) throws Exception {
        QuorumInfo info = admin.describeMetadataQuorum().quorumInfo().get();
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("leader", info.leaderId());
        out.put("epoch", info.leaderEpoch());
        out.put("high_watermark", info.highWatermark());
        out.put("voters", info.voters().stream()
            .map(QuorumInfo.ReplicaState::replicaId).collect(Collectors.toList()));
        out.put("end_offset", info.voters().get(0).logEndOffset());
        return out;
    }

    private static Object describeLogDirs(Admin admin, int broker) throws Exception {
        Map<String, Object> out = new TreeMap<>();
        admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker)
            .forEach((directory, description) -> {
                Map<String, Object> facts = new LinkedHashMap<>();
                facts.put("total", description.totalBytes().orElse(-1));
                facts.put("usable", description.usableBytes().orElse(-1));
                Map<String, Long> sizes = new TreeMap<>();
                description.replicaInfos().forEach((p, info) -> sizes.put(p.toString(), info.size()));
                facts.put("sizes", sizes);
                out.put(directory, facts);
            });
        return out;
    }

    private static Object describeProducers(Admin admin, String text) throws Exception {
        TopicPartition partition = Json.partition(text);
        return admin.describeProducers(List.of(partition)).partitionResult(partition).get()
            .activeProducers().stream()
            .map(state -> Map.of("id", state.producerId(), "epoch", state.producerEpoch(),
                "last_sequence", state.lastSequence(), "last_timestamp", state.lastTimestamp()))
            .collect(Collectors.toList());
    }
}
